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

#include "nv-p2p.h"

#define DEFAULT_VERSION "570.124.06"

/* Not a parameter of the real driver. */
static char *version = DEFAULT_VERSION;
module_param(version, charp, 0444);
MODULE_PARM_DESC(version, "driver version in /proc/driver/nvidia/version");

static bool proprietary;
module_param(proprietary, bool, 0444);
MODULE_PARM_DESC(proprietary, "not the open kernel modules");

/* Of the real driver's parameters; they have no files in /sys/module there either. */
#define PREFIX "NVreg_"

#define NUMBER(_name, _default)				\
static unsigned int NVreg_##_name = _default;		\
module_param(NVreg_##_name, uint, 0)

#define TEXT(_name)					\
static char *NVreg_##_name = "";			\
module_param(NVreg_##_name, charp, 0)

NUMBER(ModifyDeviceFiles, 1);
NUMBER(DeviceFileUID, 0);
NUMBER(DeviceFileGID, 0);
NUMBER(DeviceFileMode, 0666);
NUMBER(EnableMSI, 1);
NUMBER(EnableStreamMemOPs, 0);
NUMBER(NvLinkDisable, 0);
NUMBER(RestrictProfilingToAdminUsers, 1);
NUMBER(PreserveVideoMemoryAllocations, 0);
NUMBER(DynamicPowerManagement, 3);
NUMBER(RegisterPCIDriver, 1);
NUMBER(EnablePCIERelaxedOrderingMode, 0);
NUMBER(EnableResizableBar, 0);
NUMBER(EnableGpuFirmware, 18);
NUMBER(OpenRmEnableUnsupportedGpus, 0);
NUMBER(DmaRemapPeerMmio, 1);
NUMBER(ImexChannelCount, 2048);
NUMBER(CreateImexChannel0, 0);
NUMBER(GrdmaPciTopoCheckOverride, 0);
TEXT(RegistryDwords);
TEXT(RegistryDwordsPerDevice);
TEXT(RmNvlinkBandwidth);
TEXT(CoherentGPUMemoryMode);
TEXT(ExcludedGpus);

bool nvidia_p2p_cap_persistent_pages = true;
EXPORT_SYMBOL(nvidia_p2p_cap_persistent_pages);

/* NAME: NUMBER or NAME: "TEXT", where one parameter has another name than its own. */
static int params_show(struct seq_file *s, void *v)
{
	const struct kernel_param *kp = THIS_MODULE->kp;
	const char *name;
	int i;

	for (i = 0; i < THIS_MODULE->num_kp; i++, kp++) {
		if (!strstarts(kp->name, PREFIX))
			continue;
		name = kp->name + strlen(PREFIX);
		if (!strcmp(name, "RestrictProfilingToAdminUsers"))
			name = "RmProfilingAdminOnly";
		if (kp->ops == &param_ops_charp)
			seq_printf(s, "%s: \"%s\"\n", name, *(char **)kp->arg);
		else
			seq_printf(s, "%s: %u\n", name, *(unsigned int *)kp->arg);
	}
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
