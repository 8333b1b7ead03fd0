// SPDX-License-Identifier: GPL-2.0
/*
 * labfabric: the PCI tree of a recorded machine and its network adapters, in a
 * kernel that has none of them. e2e/kmod/README.md describes the table and the
 * parameters.
 */
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/string.h>

#include "labfabric.h"

static char *table;
module_param(table, charp, 0444);
MODULE_PARM_DESC(table, "file that lists the functions");

bool lab_keep = true;
module_param_named(keep, lab_keep, bool, 0444);
MODULE_PARM_DESC(keep, "control registers start as the table has them, not as the kernel's scan left them");

static char *driver = "mlx5_core";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "name of the driver of the network adapters");

static char *missing[LAB_FEATURES];
static int nr_missing;
module_param_array(missing, charp, &nr_missing, 0444);
MODULE_PARM_DESC(missing, "operations that the driver lacks: dcbnl, ets, pfc, app, maxrate, buffer, dcbx, pause, stall");

static char *unsupported[LAB_FEATURES];
static int nr_unsupported;
module_param_array(unsupported, charp, &nr_unsupported, 0444);
MODULE_PARM_DESC(unsupported, "operations that are there and refuse: the same names but dcbnl");

static char *dcbx = "host";
module_param(dcbx, charp, 0444);
MODULE_PARM_DESC(dcbx, "owner of DCBX: host, firmware (as mlx5), locked (as bnxt, ice)");

unsigned int lab_bounce_ms = 500;
module_param_named(bounce_ms, lab_bounce_ms, uint, 0644);
MODULE_PARM_DESC(bounce_ms, "how long the link stays down when PFC changes");

unsigned int lab_speed = SPEED_400000;
module_param_named(speed, lab_speed, uint, 0644);
MODULE_PARM_DESC(speed, "link speed in Mb/s");

bool lab_reset_on_down;
module_param_named(reset_on_down, lab_reset_on_down, bool, 0644);
MODULE_PARM_DESC(reset_on_down, "a port that goes down forgets its settings");

bool lab_ofed_sysfs;
module_param_named(ofed, lab_ofed_sysfs, bool, 0444);
MODULE_PARM_DESC(ofed, "ecn, qos and settings directories as MLNX_OFED has them");

static int set_dead(const char *text, const struct kernel_param *kp)
{
	char address[sizeof("0000:00:00.0\n")];

	if (strscpy(address, text, sizeof(address)) < 0)
		return -EINVAL;
	return lab_set_dead(strim(address));
}

static const struct kernel_param_ops dead_ops = {
	.set = set_dead,
};
module_param_cb(dead, &dead_ops, NULL, 0200);
MODULE_PARM_DESC(dead, "address of a function whose configuration space reads as all ones from now on; empty: of none");

unsigned int lab_missing, lab_unsupported;
enum lab_dcbx lab_dcbx;

static const char * const features[LAB_FEATURES] = {
	[LAB_DCBNL] = "dcbnl",
	[LAB_ETS] = "ets",
	[LAB_PFC] = "pfc",
	[LAB_APP] = "app",
	[LAB_MAXRATE] = "maxrate",
	[LAB_BUFFER] = "buffer",
	[LAB_DCBX] = "dcbx",
	[LAB_PAUSE] = "pause",
	[LAB_STALL] = "stall",
};

static const char * const owners[] = {
	[LAB_DCBX_HOST] = "host",
	[LAB_DCBX_FIRMWARE] = "firmware",
	[LAB_DCBX_LOCKED] = "locked",
};

static int parse_features(char **names, int nr, unsigned int *bits)
{
	int i, f;

	for (i = 0; i < nr; i++) {
		f = match_string(features, LAB_FEATURES, names[i]);
		if (f < 0) {
			pr_err("labfabric: there is no operation %s\n", names[i]);
			return -EINVAL;
		}
		*bits |= BIT(f);
	}
	return 0;
}

static int __init labfabric_init(void)
{
	int err;

	if (!table) {
		pr_err("labfabric: table= is missing\n");
		return -EINVAL;
	}
	err = parse_features(missing, nr_missing, &lab_missing);
	if (err)
		return err;
	err = parse_features(unsupported, nr_unsupported, &lab_unsupported);
	if (err)
		return err;
	if (!lab_supports(LAB_DCBNL)) {
		pr_err("labfabric: dcbnl is missing or there\n");
		return -EINVAL;
	}
	err = match_string(owners, ARRAY_SIZE(owners), dcbx);
	if (err < 0) {
		pr_err("labfabric: dcbx=%s is none of host, firmware, locked\n", dcbx);
		return -EINVAL;
	}
	lab_dcbx = err;

	err = lab_read_table(table);
	if (err)
		goto forget;
	err = lab_driver_register(driver);
	if (err)
		goto forget;
	err = lab_scan();
	if (err)
		goto unregister;
	return 0;

unregister:
	lab_driver_unregister();
forget:
	lab_forget();
	return err;
}

static void __exit labfabric_exit(void)
{
	lab_unscan();
	lab_driver_unregister();
	lab_forget();
}

module_init(labfabric_init);
module_exit(labfabric_exit);
MODULE_DESCRIPTION("Lab: a recorded PCI tree with DCB network adapters");
MODULE_LICENSE("GPL");
