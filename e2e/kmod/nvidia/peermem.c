// SPDX-License-Identifier: GPL-2.0
/*
 * Stand-in for nvidia-peermem: it loads, refuses to, hangs, or stays in use. Loaded
 * and registered are two things: MLNX_OFED's and Ubuntu's ib_core show a client that
 * is registered as /sys/kernel/mm/memory_peers/nv_mem.
 */
#include <linux/delay.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/sysfs.h>

#include "nv-p2p.h"

#define VERSION "570.124.06"

/* Those of the real module. */
static int peerdirect_support;
module_param(peerdirect_support, int, 0444);
MODULE_PARM_DESC(peerdirect_support, "level of support for Peer-direct, 0 or 1");

static int persistent_api_support = 1;
module_param(persistent_api_support, int, 0444);
MODULE_PARM_DESC(persistent_api_support, "level of support for the persistent API, 0 or 1");

/* Those of the lab. */
static int refuse;
module_param(refuse, int, 0444);
MODULE_PARM_DESC(refuse, "error number with which loading fails");

static unsigned int hang;
module_param(hang, uint, 0644);
MODULE_PARM_DESC(hang, "seconds that loading takes, uninterruptibly; fewer end it");

static bool registers = true;
module_param(registers, bool, 0444);
MODULE_PARM_DESC(registers, "registers with ib_core");

/* A memory region that is registered holds a reference in the same way. */
static bool held;

static int set_held(const char *value, const struct kernel_param *kp)
{
	bool want;
	int err = kstrtobool(value, &want);

	if (err || want == held)
		return err;
	if (want)
		__module_get(THIS_MODULE);
	else
		module_put(THIS_MODULE);
	held = want;
	return 0;
}

static const struct kernel_param_ops held_ops = {
	.set = set_held,
	.get = param_get_bool,
};
module_param_cb(held, &held_ops, &held, 0644);
MODULE_PARM_DESC(held, "is in use, as long as it is true");

static struct kobject *memory_peers, *nv_mem;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", VERSION);
}

static ssize_t num_alloc_mrs_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", held);
}

static struct kobj_attribute version_attr = __ATTR_RO(version);
static struct kobj_attribute num_alloc_mrs_attr = __ATTR_RO(num_alloc_mrs);

static const struct attribute *client_attrs[] = {
	&version_attr.attr,
	&num_alloc_mrs_attr.attr,
	NULL
};

static void unregister_client(void)
{
	kobject_put(nv_mem);
	kobject_put(memory_peers);
}

static int register_client(void)
{
	int err = -ENOMEM;

	memory_peers = kobject_create_and_add("memory_peers", mm_kobj);
	if (memory_peers)
		nv_mem = kobject_create_and_add("nv_mem", memory_peers);
	if (nv_mem)
		err = sysfs_create_files(nv_mem, client_attrs);
	if (err)
		unregister_client();
	return err;
}

static int nv_mem_param_conf_check(const char *name, int value)
{
	if (value == 0 || value == 1)
		return 0;
	pr_err("nvidia-peermem %s:%d ERROR invalid %s param value %d\n", __func__, __LINE__, name,
	       value);
	return -EINVAL;
}

static int __init nv_mem_client_init(void)
{
	unsigned int slept;
	int err;

	err = nv_mem_param_conf_check("peerdirect_support", peerdirect_support);
	if (!err)
		err = nv_mem_param_conf_check("persistent_api_support", persistent_api_support);
	if (err)
		return err;
	if (!nvidia_p2p_cap_persistent_pages)
		return -EINVAL;
	for (slept = 0; slept < READ_ONCE(hang); slept++)
		ssleep(1);
	if (refuse)
		return -abs(refuse);
	return registers ? register_client() : 0;
}

static void __exit nv_mem_client_cleanup(void)
{
	if (registers)
		unregister_client();
}

module_init(nv_mem_client_init);
module_exit(nv_mem_client_cleanup);
MODULE_DESCRIPTION("NVIDIA GPU memory plug-in");
MODULE_VERSION(VERSION);
MODULE_LICENSE("Dual BSD/GPL");
