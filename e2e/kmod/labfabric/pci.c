// SPDX-License-Identifier: GPL-2.0
/*
 * The functions' configuration space, and the root buses that show it to the
 * kernel. Capabilities do not stand where a fixed offset would find them: bridges
 * and endpoints have theirs at different places, and ACS is not the first one.
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "labfabric.h"

#define HEADER_MULTIFUNCTION	0x80

#define CAP_EXP_BRIDGE		0x40
#define CAP_EXP_ENDPOINT	0x60
#define CAP_SSVID		0xc0
#define CAP_DSN			0x100
#define CAP_ACS			0x148
#define CAP_ATS			0x1c0

/* DevCtl after a reset: MRRS 512, no snoop, relaxed ordering, MPS 128. */
#define DEVCTL_RESET (PCI_EXP_DEVCTL_READRQ_512B | PCI_EXP_DEVCTL_NOSNOOP_EN | \
		      PCI_EXP_DEVCTL_RELAX_EN)

LIST_HEAD(lab_roots);

/* x86 reads and writes configuration space without a lock of its own. */
static DEFINE_RAW_SPINLOCK(config_lock);

static struct lab_root *find_root(unsigned int domain, unsigned int bus)
{
	struct lab_root *root;

	list_for_each_entry(root, &lab_roots, list)
		if (root->sysdata.domain == domain && bus >= root->busn.start &&
		    bus <= root->busn.end)
			return root;
	return NULL;
}

static struct lab_function *find_function(struct lab_root *root, u8 bus, unsigned int devfn)
{
	struct lab_function *f;

	list_for_each_entry(f, &root->functions, list)
		if (f->bus == bus && f->devfn == devfn)
			return f;
	return NULL;
}

static struct lab_root *root_of(struct pci_bus *bus)
{
	return container_of((struct pci_sysdata *)bus->sysdata, struct lab_root, sysdata);
}

struct lab_function *lab_function_of(struct pci_dev *pdev)
{
	struct lab_root *root;

	list_for_each_entry(root, &lab_roots, list)
		if (pdev->bus->sysdata == &root->sysdata)
			return find_function(root, pdev->bus->number, pdev->devfn);
	return NULL;
}

static void put(struct lab_function *f, int where, int size, u32 value, u32 writable)
{
	int i;

	for (i = 0; i < size; i++) {
		f->cfg[where + i] = value >> (8 * i);
		f->writable[where + i] = writable >> (8 * i);
	}
}

static void set_word(struct lab_function *f, int where, u16 value)
{
	f->cfg[where] = value;
	f->cfg[where + 1] = value >> 8;
}

static void reset_function(struct lab_function *f)
{
	set_word(f, PCI_COMMAND, 0);
	if (f->exp)
		set_word(f, f->exp + PCI_EXP_DEVCTL, DEVCTL_RESET);
	if (f->acs)
		set_word(f, f->acs + PCI_ACS_CTRL, 0);
	if (f->ats)
		set_word(f, f->ats + PCI_ATS_CTRL, 0);
}

/* The control registers that a profile may ask for. */
static void keep_function(struct lab_function *f)
{
	if (f->exp)
		set_word(f, f->exp + PCI_EXP_DEVCTL, f->devctl);
	if (f->acs)
		set_word(f, f->acs + PCI_ACS_CTRL, f->acsctl);
	if (f->ats)
		set_word(f, f->ats + PCI_ATS_CTRL, f->atsctl);
}

static bool begins_flr(struct lab_function *f, int where, int size, u32 value)
{
	int high = f->exp + PCI_EXP_DEVCTL + 1;

	if (!f->exp || where > high || where + size <= high)
		return false;
	return (value >> (8 * (high - where))) & (PCI_EXP_DEVCTL_BCR_FLR >> 8) &&
	       f->cfg[f->exp + PCI_EXP_DEVCAP + 3] & (PCI_EXP_DEVCAP_FLR >> 24);
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct lab_function *f = find_function(root_of(bus), bus->number, devfn);
	unsigned long flags;
	int i;

	if (!f) {
		PCI_SET_ERROR_RESPONSE(value);
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	if (READ_ONCE(f->dead)) {
		PCI_SET_ERROR_RESPONSE(value);
		return PCIBIOS_SUCCESSFUL;
	}
	*value = 0;
	raw_spin_lock_irqsave(&config_lock, flags);
	for (i = 0; i < size; i++)
		*value |= (u32)f->cfg[where + i] << (8 * i);
	raw_spin_unlock_irqrestore(&config_lock, flags);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct lab_function *f = find_function(root_of(bus), bus->number, devfn);
	unsigned long flags;
	int i;

	if (!f)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (READ_ONCE(f->dead))
		return PCIBIOS_SUCCESSFUL;
	raw_spin_lock_irqsave(&config_lock, flags);
	for (i = 0; i < size; i++) {
		u8 mask = f->writable[where + i];

		f->cfg[where + i] = (f->cfg[where + i] & ~mask) | ((value >> (8 * i)) & mask);
	}
	if (begins_flr(f, where, size, value))
		reset_function(f);
	raw_spin_unlock_irqrestore(&config_lock, flags);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = {
	.read = config_read,
	.write = config_write,
};

static void put_header(struct lab_function *f, const struct lab_line *line)
{
	bool bridge = line->secondary;

	put(f, PCI_VENDOR_ID, 2, line->vendor, 0);
	put(f, PCI_DEVICE_ID, 2, line->id, 0);
	put(f, PCI_COMMAND, 2, 0, PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	    PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE);
	put(f, PCI_CLASS_REVISION, 4, line->class << 8, 0);
	put(f, PCI_CACHE_LINE_SIZE, 1, 0, 0xff);
	put(f, PCI_HEADER_TYPE, 1,
	    bridge ? PCI_HEADER_TYPE_BRIDGE : PCI_HEADER_TYPE_NORMAL, 0);
	if (!bridge) {
		put(f, PCI_SUBSYSTEM_VENDOR_ID, 2, line->subsystem_vendor, 0);
		put(f, PCI_SUBSYSTEM_ID, 2, line->subsystem_id, 0);
		return;
	}
	put(f, PCI_PRIMARY_BUS, 1, line->bus, 0xff);
	put(f, PCI_SECONDARY_BUS, 1, line->secondary, 0xff);
	put(f, PCI_SUBORDINATE_BUS, 1, line->subordinate, 0xff);
	/* The windows are closed: their bases lie above their limits. */
	put(f, PCI_IO_BASE, 1, 0xf0, 0xf0);
	put(f, PCI_IO_LIMIT, 1, 0, 0xf0);
	put(f, PCI_MEMORY_BASE, 2, 0xfff0, 0xfff0);
	put(f, PCI_MEMORY_LIMIT, 2, 0, 0xfff0);
	put(f, PCI_PREF_MEMORY_BASE, 2, 0xfff0, 0xfff0);
	put(f, PCI_PREF_MEMORY_LIMIT, 2, 0, 0xfff0);
	put(f, PCI_BRIDGE_CONTROL, 2, 0, PCI_BRIDGE_CTL_PARITY | PCI_BRIDGE_CTL_SERR |
	    PCI_BRIDGE_CTL_MASTER_ABORT);
}

/* The standard capabilities; *last is where the offset of the next one belongs. */
static void put_cap(struct lab_function *f, int *last, u8 where, u8 id)
{
	put(f, *last, 1, where, 0);
	put(f, where, 1, id, 0);
	*last = where + PCI_CAP_LIST_NEXT;
	f->cfg[PCI_STATUS] |= PCI_STATUS_CAP_LIST;
}

static void put_ext_cap(struct lab_function *f, int *last, u16 where, u16 id)
{
	if (*last)
		put(f, *last + 2, 2, where << 4 | 1, 0);	/* version 1 */
	put(f, where, 4, id | 1 << 16, 0);
	*last = where;
}

/* Bit N of the supported link speeds is speed N + 1 of the Link Capabilities. */
static u32 link_speeds(u32 lnkcap)
{
	u32 max = lnkcap & PCI_EXP_LNKCAP_SLS;

	return max ? GENMASK(max, 1) : 0;
}

static void put_pcie(struct lab_function *f, const struct lab_line *line, int *last)
{
	u16 exp = line->secondary ? CAP_EXP_BRIDGE : CAP_EXP_ENDPOINT;
	int ext = 0;

	put_cap(f, last, exp, PCI_CAP_ID_EXP);
	f->exp = exp;
	put(f, exp + PCI_EXP_FLAGS, 2, line->type << 4 | 2, 0);
	put(f, exp + PCI_EXP_DEVCAP, 4, line->devcap, 0);
	put(f, exp + PCI_EXP_DEVCTL, 2, line->devctl, 0xffff & ~PCI_EXP_DEVCTL_BCR_FLR);
	put(f, exp + PCI_EXP_LNKCAP, 4, line->lnkcap, 0);
	put(f, exp + PCI_EXP_LNKCTL, 2, 0, PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB |
	    PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES);
	put(f, exp + PCI_EXP_LNKSTA, 2, line->lnksta, 0);
	put(f, exp + PCI_EXP_DEVCTL2, 2, 0, PCI_EXP_DEVCTL2_COMP_TIMEOUT |
	    PCI_EXP_DEVCTL2_COMP_TMOUT_DIS);
	put(f, exp + PCI_EXP_LNKCAP2, 4, link_speeds(line->lnkcap), 0);
	put(f, exp + PCI_EXP_LNKCTL2, 2, line->lnkcap & PCI_EXP_LNKCAP_SLS,
	    PCI_EXP_LNKCTL2_TLS);

	put_ext_cap(f, &ext, CAP_DSN, PCI_EXT_CAP_ID_DSN);
	put(f, CAP_DSN + 4, 4, line->bus << 8 | f->devfn, 0);
	put(f, CAP_DSN + 8, 4, line->domain, 0);
	if (line->has_acs) {
		put_ext_cap(f, &ext, CAP_ACS, PCI_EXT_CAP_ID_ACS);
		f->acs = CAP_ACS;
		put(f, CAP_ACS + PCI_ACS_CAP, 2, line->acscap, 0);
		put(f, CAP_ACS + PCI_ACS_CTRL, 2, line->acsctl, line->acscap & 0x7f);
	}
	if (line->has_ats) {
		put_ext_cap(f, &ext, CAP_ATS, PCI_EXT_CAP_ID_ATS);
		f->ats = CAP_ATS;
		put(f, CAP_ATS + PCI_ATS_CTRL, 2, line->atsctl, PCI_ATS_CTRL_ENABLE | 0x1f);
	}
}

/* Function 0 says whether a device has more functions than that. */
static void mark_multifunction(struct lab_root *root, struct lab_function *added)
{
	struct lab_function *f;

	list_for_each_entry(f, &root->functions, list) {
		if (f == added || f->bus != added->bus ||
		    PCI_SLOT(f->devfn) != PCI_SLOT(added->devfn))
			continue;
		f->cfg[PCI_HEADER_TYPE] |= HEADER_MULTIFUNCTION;
		added->cfg[PCI_HEADER_TYPE] |= HEADER_MULTIFUNCTION;
	}
}

int lab_add_function(const struct lab_line *line)
{
	struct lab_root *root = find_root(line->domain, line->bus);
	u8 devfn = PCI_DEVFN(line->device, line->function);
	int i, last = PCI_CAPABILITY_LIST;
	struct lab_function *f;

	if (!root)
		return -ENODEV;
	if (find_function(root, line->bus, devfn))
		return -EINVAL;
	f = vzalloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->bus = line->bus;
	f->devfn = devfn;
	f->devctl = line->devctl;
	f->acsctl = line->acsctl;
	f->atsctl = line->atsctl;
	put_header(f, line);
	if (line->type != LAB_NO_PCIE)
		put_pcie(f, line, &last);
	if (line->secondary && line->subsystem_vendor) {
		put_cap(f, &last, CAP_SSVID, PCI_CAP_ID_SSVID);
		put(f, CAP_SSVID + PCI_SSVID_VENDOR_ID, 2, line->subsystem_vendor, 0);
		put(f, CAP_SSVID + PCI_SSVID_DEVICE_ID, 2, line->subsystem_id, 0);
	}
	for (i = 0; i < LAB_MAX_PORTS; i++) {
		strscpy(f->ports[i].name, line->ports[i], IFNAMSIZ);
		lab_port_defaults(&f->ports[i]);
	}
	list_add_tail(&f->list, &root->functions);
	mark_multifunction(root, f);
	return 0;
}

struct lab_root *lab_add_root(unsigned int domain, unsigned int first, unsigned int last, int node)
{
	struct lab_root *root;

	if (find_root(domain, first) || find_root(domain, last))
		return ERR_PTR(-EINVAL);	/* modprobe takes EEXIST for success */
	if (node >= 0 && (node >= MAX_NUMNODES || !node_online(node))) {
		pr_warn("labfabric: there is no node %d for bus %04x:%02x\n", node, domain, first);
		node = NUMA_NO_NODE;
	}
	root = kzalloc(sizeof(*root), GFP_KERNEL);
	if (!root)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&root->functions);
	root->sysdata.domain = domain;
	root->sysdata.node = node;
	root->busn = (struct resource)DEFINE_RES_NAMED(first, last - first + 1, "labfabric",
						       IORESOURCE_BUS);
	list_add_tail(&root->list, &lab_roots);
	return root;
}

void lab_forget(void)
{
	struct lab_function *f, *next_f;
	struct lab_root *root, *next;

	list_for_each_entry_safe(root, next, &lab_roots, list) {
		list_for_each_entry_safe(f, next_f, &root->functions, list)
			vfree(f);
		list_del(&root->list);
		kfree(root);
	}
}

/* The kernel's scan looks for function 0 first, and goes no further without it. */
static void scan_without_function_0(struct lab_root *root)
{
	struct lab_function *f;

	list_for_each_entry(f, &root->functions, list)
		if (f->bus == root->bus->number &&
		    !find_function(root, f->bus, f->devfn & ~0x7))
			pci_scan_single_device(root->bus, f->devfn);
}

static int scan_root(struct lab_root *root)
{
	struct pci_host_bridge *bridge;
	LIST_HEAD(resources);

	pci_add_resource(&resources, &root->busn);
	root->bus = pci_create_root_bus(NULL, root->busn.start, &config_ops, &root->sysdata,
					&resources);
	if (!root->bus) {
		pci_free_resource_list(&resources);
		return -ENOMEM;
	}
	/* Ports need interrupts for these services, and have none. */
	bridge = to_pci_host_bridge(root->bus->bridge);
	bridge->native_aer = 0;
	bridge->native_pcie_hotplug = 0;
	bridge->native_shpc_hotplug = 0;
	bridge->native_pme = 0;
	bridge->native_dpc = 0;

	scan_without_function_0(root);
	pci_scan_child_bus(root->bus);
	pci_bus_add_devices(root->bus);
	return 0;
}

/*
 * A function that comes has been set up by the kernel's scan. One that was removed
 * has no power until the next scan, and its firmware begins anew then.
 */
static int comes_or_goes(struct notifier_block *nb, unsigned long event, void *device)
{
	struct lab_function *f = lab_function_of(to_pci_dev(device));
	int i;

	if (!f)
		return NOTIFY_DONE;
	switch (event) {
	case BUS_NOTIFY_ADD_DEVICE:
		if (lab_keep)
			keep_function(f);
		break;
	case BUS_NOTIFY_REMOVED_DEVICE:
		reset_function(f);
		for (i = 0; i < LAB_MAX_PORTS; i++)
			lab_port_defaults(&f->ports[i]);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block comes_or_goes_block = {
	.notifier_call = comes_or_goes,
};

/* Marks the function at an address as dead, or with an empty one revives all. */
int lab_set_dead(const char *address)
{
	unsigned int domain, bus, device, function;
	struct lab_function *f;
	struct lab_root *root;

	if (!*address) {
		list_for_each_entry(root, &lab_roots, list)
			list_for_each_entry(f, &root->functions, list)
				WRITE_ONCE(f->dead, false);
		return 0;
	}
	if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return -EINVAL;
	root = find_root(domain, bus);
	f = root ? find_function(root, bus, PCI_DEVFN(device, function)) : NULL;
	if (!f)
		return -ENODEV;
	WRITE_ONCE(f->dead, true);
	return 0;
}

int lab_scan(void)
{
	struct lab_root *root;
	int err;

	err = bus_register_notifier(&pci_bus_type, &comes_or_goes_block);
	if (err)
		return err;
	pci_lock_rescan_remove();
	list_for_each_entry(root, &lab_roots, list) {
		err = scan_root(root);
		if (err)
			break;
	}
	pci_unlock_rescan_remove();
	if (err)
		lab_unscan();
	return err;
}

void lab_unscan(void)
{
	struct lab_root *root;

	pci_lock_rescan_remove();
	list_for_each_entry(root, &lab_roots, list) {
		if (!root->bus)
			continue;
		pci_stop_root_bus(root->bus);
		pci_remove_root_bus(root->bus);
		root->bus = NULL;
	}
	pci_unlock_rescan_remove();
	bus_unregister_notifier(&pci_bus_type, &comes_or_goes_block);
}
