// SPDX-License-Identifier: GPL-2.0
/*
 * The driver of the network adapters: netdevs whose frames go nowhere, with the
 * settings of a ConnectX (drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c).
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>

#include "labfabric.h"

#define MAX_MTU		9978
#define FIRMWARE	"28.39.1002 (MT_0000000838)"

/* PFC storm prevention, in milliseconds. */
#define STALL_AUTO	100
#define STALL_MIN	80
#define STALL_MAX	8000

struct lab_netdev *lab_netdev_of(struct net_device *dev)
{
	return netdev_priv(dev);
}

void lab_port_defaults(struct lab_port *port)
{
	int i;

	port->trust_dscp = false;
	for (i = 0; i < ARRAY_SIZE(port->dscp2prio); i++)
		port->dscp2prio[i] = i >> 3;
	port->pfc_en = 0;
	port->rx_pause = true;
	port->tx_pause = true;
	port->stall_ms = STALL_MAX;
	port->dcbx = lab_dcbx;
	memset(&port->maxrate, 0, sizeof(port->maxrate));
	memset(&port->buffer, 0, sizeof(port->buffer));
	port->buffer.buffer_size[0] = 262016;
	port->buffer.total_size = 524160;
	memset(port->ecn, 0, sizeof(port->ecn));
	port->cnp_dscp = 48;
	port->cnp_802p_prio = 6;
	port->min_time_between_cnps = 4;
}

/* The end of a bounce. */
static void link_up(struct work_struct *work)
{
	struct lab_netdev *nd = container_of(work, struct lab_netdev, link_up.work);

	netif_carrier_on(nd->dev);
}

static int lab_open(struct net_device *dev)
{
	netif_carrier_on(dev);
	netif_start_queue(dev);
	return 0;
}

static int lab_stop(struct net_device *dev)
{
	struct lab_netdev *nd = lab_netdev_of(dev);

	netif_stop_queue(dev);
	cancel_delayed_work_sync(&nd->link_up);
	netif_carrier_off(dev);
	if (lab_reset_on_down)
		lab_dcb_forget(nd);
	return 0;
}

static netdev_tx_t lab_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

/* Somebody pulls the cable, or puts it back: /sys/class/net/X/carrier. */
static int lab_change_carrier(struct net_device *dev, bool carrier)
{
	if (carrier)
		netif_carrier_on(dev);
	else
		netif_carrier_off(dev);
	return 0;
}

static int lab_phys_port_name(struct net_device *dev, char *name, size_t len)
{
	return snprintf(name, len, "p%u", dev->dev_port) < len ? 0 : -EOPNOTSUPP;
}

static const struct net_device_ops lab_netdev_ops = {
	.ndo_open = lab_open,
	.ndo_stop = lab_stop,
	.ndo_start_xmit = lab_xmit,
	.ndo_change_carrier = lab_change_carrier,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_get_phys_port_name = lab_phys_port_name,
};

static void lab_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct pci_driver *driver = to_pci_driver(dev->dev.parent->driver);

	strscpy(info->driver, driver->name, sizeof(info->driver));
	strscpy(info->fw_version, FIRMWARE, sizeof(info->fw_version));
	strscpy(info->bus_info, dev_name(dev->dev.parent), sizeof(info->bus_info));
}

static int lab_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	bool up = netif_carrier_ok(dev);

	settings->base.speed = up ? lab_speed : SPEED_UNKNOWN;
	settings->base.duplex = up ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	settings->base.port = PORT_DA;
	settings->base.autoneg = AUTONEG_ENABLE;
	return 0;
}

static void lab_get_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct lab_port *port = lab_netdev_of(dev)->port;

	pause->rx_pause = port->rx_pause;
	pause->tx_pause = port->tx_pause;
}

static int lab_set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct lab_port *port = lab_netdev_of(dev)->port;

	port->writes.pause++;
	if (!lab_supports(LAB_PAUSE))
		return -EOPNOTSUPP;
	if (pause->autoneg)
		return -EINVAL;
	port->rx_pause = pause->rx_pause;
	port->tx_pause = pause->tx_pause;
	return 0;
}

static int lab_get_tunable(struct net_device *dev, const struct ethtool_tunable *tunable,
			   void *data)
{
	if (tunable->id != ETHTOOL_PFC_PREVENTION_TOUT)
		return -EINVAL;
	if (!lab_supports(LAB_STALL))
		return -EOPNOTSUPP;
	*(u16 *)data = lab_netdev_of(dev)->port->stall_ms;
	return 0;
}

static int lab_set_tunable(struct net_device *dev, const struct ethtool_tunable *tunable,
			   const void *data)
{
	struct lab_port *port = lab_netdev_of(dev)->port;
	u16 ms = *(const u16 *)data;

	if (tunable->id != ETHTOOL_PFC_PREVENTION_TOUT)
		return -EINVAL;
	port->writes.stall++;
	if (!lab_supports(LAB_STALL))
		return -EOPNOTSUPP;
	if (ms == PFC_STORM_PREVENTION_AUTO)
		ms = STALL_AUTO;
	if (ms != PFC_STORM_PREVENTION_DISABLE && (ms < STALL_MIN || ms > STALL_MAX))
		return -EINVAL;
	port->stall_ms = ms;
	return 0;
}

/* A port without pause or storm prevention lacks the two operations of it. */
#define COMMON_ETHTOOL_OPS				\
	.get_drvinfo = lab_drvinfo,			\
	.get_link = ethtool_op_get_link,		\
	.get_link_ksettings = lab_link_ksettings

#define PAUSE_OPS					\
	.get_pauseparam = lab_get_pause,		\
	.set_pauseparam = lab_set_pause

#define STALL_OPS					\
	.get_tunable = lab_get_tunable,			\
	.set_tunable = lab_set_tunable

static const struct ethtool_ops lab_ethtool_ops[2][2] = {
	[false][false] = { COMMON_ETHTOOL_OPS },
	[false][true] = { COMMON_ETHTOOL_OPS, STALL_OPS },
	[true][false] = { COMMON_ETHTOOL_OPS, PAUSE_OPS },
	[true][true] = { COMMON_ETHTOOL_OPS, PAUSE_OPS, STALL_OPS },
};

/* /sys/class/net/X/labfabric: how often each setting was written. */
#define WRITES(_name, _field)								\
static ssize_t _name##_show(struct device *d, struct device_attribute *attr, char *buf)	\
{											\
	return sysfs_emit(buf, "%u\n",							\
			  lab_netdev_of(to_net_dev(d))->port->writes._field);		\
}											\
static DEVICE_ATTR_RO(_name)

WRITES(ets_writes, ets);
WRITES(pfc_writes, pfc);
WRITES(app_writes, app);
WRITES(maxrate_writes, maxrate);
WRITES(buffer_writes, buffer);
WRITES(dcbx_writes, dcbx);
WRITES(pause_writes, pause);
WRITES(stall_writes, stall);
WRITES(ecn_writes, ecn);
WRITES(trust_writes, trust);
WRITES(link_bounces, bounces);

static struct attribute *writes_attrs[] = {
	&dev_attr_ets_writes.attr,
	&dev_attr_pfc_writes.attr,
	&dev_attr_app_writes.attr,
	&dev_attr_maxrate_writes.attr,
	&dev_attr_buffer_writes.attr,
	&dev_attr_dcbx_writes.attr,
	&dev_attr_pause_writes.attr,
	&dev_attr_stall_writes.attr,
	&dev_attr_ecn_writes.attr,
	&dev_attr_trust_writes.attr,
	&dev_attr_link_bounces.attr,
	NULL
};

static const struct attribute_group writes_group = {
	.name = "labfabric",
	.attrs = writes_attrs,
};

static void destroy_port(struct net_device *dev)
{
	struct lab_netdev *nd = lab_netdev_of(dev);

	lab_ofed_remove(nd);
	unregister_netdev(dev);
	cancel_delayed_work_sync(&nd->link_up);
	free_netdev(dev);
}

/* The same port has the same address each time: its GIDs stay. */
static void set_address(struct net_device *dev, struct pci_dev *pdev)
{
	int domain = pci_domain_nr(pdev->bus);
	u8 address[ETH_ALEN] = {
		0x02, domain >> 8, domain, pdev->bus->number, pdev->devfn, dev->dev_port,
	};

	eth_hw_addr_set(dev, address);
}

static struct net_device *create_port(struct pci_dev *pdev, struct lab_port *port, int nr)
{
	struct net_device *dev;
	struct lab_netdev *nd;
	int err;

	dev = alloc_etherdev(sizeof(*nd));
	if (!dev)
		return ERR_PTR(-ENOMEM);
	nd = lab_netdev_of(dev);
	nd->dev = dev;
	nd->port = port;
	INIT_DELAYED_WORK(&nd->link_up, link_up);
	SET_NETDEV_DEV(dev, &pdev->dev);
	dev->dev_port = nr;
	dev->netdev_ops = &lab_netdev_ops;
	dev->ethtool_ops = &lab_ethtool_ops[lab_has(LAB_PAUSE)][lab_has(LAB_STALL)];
	dev->max_mtu = MAX_MTU;
	dev->sysfs_groups[0] = &writes_group;
	set_address(dev, pdev);
	lab_dcb_init(nd);
	netif_carrier_off(dev);

	strscpy(dev->name, port->name, IFNAMSIZ);
	dev->name_assign_type = NET_NAME_PREDICTABLE;	/* udev lets it be */
	err = register_netdev(dev);
	if (err == -EEXIST) {
		strscpy(dev->name, "eth%d", IFNAMSIZ);
		err = register_netdev(dev);
	}
	if (err) {
		free_netdev(dev);
		return ERR_PTR(err);
	}
	lab_dcb_show_apps(nd);
	err = lab_ofed_create(nd);
	if (err) {
		destroy_port(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static void lab_remove(struct pci_dev *pdev)
{
	struct net_device **devs = pci_get_drvdata(pdev);
	int i;

	for (i = 0; i < LAB_MAX_PORTS; i++)
		if (devs[i])
			destroy_port(devs[i]);
	pci_disable_device(pdev);
}

static int lab_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lab_function *f = lab_function_of(pdev);
	struct net_device **devs, *dev;
	int i, err;

	if (!f)
		return -ENODEV;
	devs = devm_kcalloc(&pdev->dev, LAB_MAX_PORTS, sizeof(*devs), GFP_KERNEL);
	if (!devs)
		return -ENOMEM;
	pci_set_drvdata(pdev, devs);
	err = pci_enable_device(pdev);
	if (err)
		return err;
	pci_set_master(pdev);
	for (i = 0; i < LAB_MAX_PORTS; i++) {
		if (!f->ports[i].name[0])
			continue;
		dev = create_port(pdev, &f->ports[i], i);
		if (IS_ERR(dev)) {
			lab_remove(pdev);
			return PTR_ERR(dev);
		}
		devs[i] = dev;
	}
	return 0;
}

static const struct pci_device_id lab_ids[] = {
	{
		PCI_DEVICE(PCI_VENDOR_ID_MELLANOX, PCI_ANY_ID),
		.class = PCI_CLASS_NETWORK_ETHERNET << 8,
		.class_mask = 0xffff00,
	},
	{}
};

static struct pci_driver lab_driver = {
	.id_table = lab_ids,
	.probe = lab_probe,
	.remove = lab_remove,
};

int lab_driver_register(const char *name)
{
	lab_driver.name = name;
	return pci_register_driver(&lab_driver);
}

void lab_driver_unregister(void)
{
	pci_unregister_driver(&lab_driver);
}
