// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Stand-in for NVIDIA's driver: it takes the parameters, binds to GPUs and
 * NVSwitches, and shows /proc/driver/nvidia/{params,version} in the form of
 * nv-procfs.c and nv-reg.h of open-gpu-kernel-modules. It drives nothing.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/utsname.h>

#define DEFAULT_VERSION "570.124.06"

/* Not a parameter of the real driver. */
static char *version = DEFAULT_VERSION;
module_param(version, charp, 0444);
MODULE_PARM_DESC(version, "driver version in /proc/driver/nvidia/version");

static bool proprietary;
module_param(proprietary, bool, 0444);
MODULE_PARM_DESC(proprietary, "not the open kernel modules");

/*
 * The real driver gives its parameters no files in /sys/module either, and prints
 * them without their prefix.
 */
#define NVREG(_name, _default)						\
static unsigned int NVreg_##_name = _default;				\
module_param(NVreg_##_name, uint, 0)

#define NVREG_STRING(_name)						\
static char *NVreg_##_name = "";					\
module_param(NVreg_##_name, charp, 0)

NVREG(ResmanDebugLevel, ~0);
NVREG(RmLogonRC, 1);
NVREG(ModifyDeviceFiles, 1);
NVREG(DeviceFileUID, 0);
NVREG(DeviceFileGID, 0);
NVREG(DeviceFileMode, 0666);
NVREG(InitializeSystemMemoryAllocations, 1);
NVREG(UsePageAttributeTable, ~0);
NVREG(EnableMSI, 1);
NVREG(EnablePCIeGen3, 0);
NVREG(MemoryPoolSize, 0);
NVREG(IgnoreMMIOCheck, 0);
NVREG(EnableStreamMemOPs, 0);
NVREG(EnableUserNUMAManagement, 1);
NVREG(NvLinkDisable, 0);
NVREG(RestrictProfilingToAdminUsers, 1);
NVREG(PreserveVideoMemoryAllocations, 0);
NVREG(EnableS0ixPowerManagement, 0);
NVREG(DynamicPowerManagement, 3);
NVREG(RegisterPCIDriver, 1);
NVREG(EnablePCIERelaxedOrderingMode, 0);
NVREG(EnableResizableBar, 0);
NVREG(EnableGpuFirmware, 18);
NVREG(EnableGpuFirmwareLogs, 2);
NVREG(OpenRmEnableUnsupportedGpus, 0);
NVREG(DmaRemapPeerMmio, 1);
NVREG(ImexChannelCount, 2048);
NVREG(CreateImexChannel0, 0);
NVREG(GrdmaPciTopoCheckOverride, 0);

NVREG_STRING(RegistryDwords);
NVREG_STRING(RegistryDwordsPerDevice);
NVREG_STRING(RmMsg);
NVREG_STRING(GpuBlacklist);
NVREG_STRING(TemporaryFilePath);
NVREG_STRING(ExcludedGpus);
NVREG_STRING(RmNvlinkBandwidth);
NVREG_STRING(CoherentGPUMemoryMode);

#define NUMBER(_name) { #_name, &NVreg_##_name }
#define TEXT(_name) { #_name, &NVreg_##_name }

static const struct {
	const char *name;
	const unsigned int *value;
} numbers[] = {
	NUMBER(ResmanDebugLevel),
	NUMBER(RmLogonRC),
	NUMBER(ModifyDeviceFiles),
	NUMBER(DeviceFileUID),
	NUMBER(DeviceFileGID),
	NUMBER(DeviceFileMode),
	NUMBER(InitializeSystemMemoryAllocations),
	NUMBER(UsePageAttributeTable),
	NUMBER(EnableMSI),
	NUMBER(EnablePCIeGen3),
	NUMBER(MemoryPoolSize),
	NUMBER(IgnoreMMIOCheck),
	NUMBER(EnableStreamMemOPs),
	NUMBER(EnableUserNUMAManagement),
	NUMBER(NvLinkDisable),
	/* The file has another name for this one. */
	{ "RmProfilingAdminOnly", &NVreg_RestrictProfilingToAdminUsers },
	NUMBER(PreserveVideoMemoryAllocations),
	NUMBER(EnableS0ixPowerManagement),
	NUMBER(DynamicPowerManagement),
	NUMBER(RegisterPCIDriver),
	NUMBER(EnablePCIERelaxedOrderingMode),
	NUMBER(EnableResizableBar),
	NUMBER(EnableGpuFirmware),
	NUMBER(EnableGpuFirmwareLogs),
	NUMBER(OpenRmEnableUnsupportedGpus),
	NUMBER(DmaRemapPeerMmio),
	NUMBER(ImexChannelCount),
	NUMBER(CreateImexChannel0),
	NUMBER(GrdmaPciTopoCheckOverride),
};

static const struct {
	const char *name;
	char **value;
} texts[] = {
	TEXT(RegistryDwords),
	TEXT(RegistryDwordsPerDevice),
	TEXT(RmMsg),
	TEXT(GpuBlacklist),
	TEXT(TemporaryFilePath),
	TEXT(ExcludedGpus),
	TEXT(RmNvlinkBandwidth),
	TEXT(CoherentGPUMemoryMode),
};

/* nvidia_peermem refers to it, as the real one does. */
bool nvidia_p2p_cap_persistent_pages = true;
EXPORT_SYMBOL(nvidia_p2p_cap_persistent_pages);

static int params_show(struct seq_file *s, void *v)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		seq_printf(s, "%s: %u\n", numbers[i].name, *numbers[i].value);
	for (i = 0; i < ARRAY_SIZE(texts); i++)
		seq_printf(s, "%s: \"%s\"\n", texts[i].name, *texts[i].value);
	return 0;
}

static int version_show(struct seq_file *s, void *v)
{
	if (proprietary)
		seq_printf(s, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Wed Feb 26 01:35:57 UTC 2025\n",
			   version);
	else
		seq_printf(s, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (lab@%s)  Wed Feb 26 01:35:57 UTC 2025\n",
			   version, utsname()->nodename);
	seq_printf(s, "GCC version:  gcc version %d.%d.%d\n", __GNUC__, __GNUC_MINOR__,
		   __GNUC_PATCHLEVEL__);
	return 0;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	return 0;
}

static const struct pci_device_id gpu_ids[] = {
	{
		PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID),
		.class = PCI_CLASS_DISPLAY_VGA << 8,
		.class_mask = ~0,
	}, {
		PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID),
		.class = PCI_CLASS_DISPLAY_3D << 8,
		.class_mask = ~0,
	},
	{}
};
MODULE_DEVICE_TABLE(pci, gpu_ids);

static const struct pci_device_id nvswitch_ids[] = {
	{
		PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID),
		.class = PCI_CLASS_BRIDGE_OTHER << 8,
		.class_mask = ~0,
	},
	{}
};

static struct pci_driver gpu_driver = {
	.name = "nvidia",
	.id_table = gpu_ids,
	.probe = probe,
};

static struct pci_driver nvswitch_driver = {
	.name = "nvidia-nvswitch",
	.id_table = nvswitch_ids,
	.probe = probe,
};

static int __init nvidia_init(void)
{
	struct proc_dir_entry *dir;
	int err;

	dir = proc_mkdir("driver/nvidia", NULL);
	if (!dir || !proc_create_single("params", 0444, dir, params_show) ||
	    !proc_create_single("version", 0444, dir, version_show)) {
		err = -ENOMEM;
		goto remove_proc;
	}
	if (!NVreg_RegisterPCIDriver)
		return 0;
	err = pci_register_driver(&gpu_driver);
	if (err)
		goto remove_proc;
	err = pci_register_driver(&nvswitch_driver);
	if (err)
		goto unregister_gpu;
	return 0;

unregister_gpu:
	pci_unregister_driver(&gpu_driver);
remove_proc:
	remove_proc_subtree("driver/nvidia", NULL);
	return err;
}

static void __exit nvidia_exit(void)
{
	if (NVreg_RegisterPCIDriver) {
		pci_unregister_driver(&nvswitch_driver);
		pci_unregister_driver(&gpu_driver);
	}
	remove_proc_subtree("driver/nvidia", NULL);
}

module_init(nvidia_init);
module_exit(nvidia_exit);
MODULE_DESCRIPTION("Lab: stand-in for NVIDIA's driver");
MODULE_VERSION(DEFAULT_VERSION);
MODULE_LICENSE("Dual MIT/GPL");
