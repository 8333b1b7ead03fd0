// SPDX-License-Identifier: GPL-2.0
/*
 * What MLNX_OFED's driver adds below /sys/class/net/X: ecn, qos and settings
 * (en_sysfs.c and en_ecn.c of that driver). The inbox driver has none of it.
 */
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "labfabric.h"

/* A number that is read and written as such. */
struct lab_file {
	struct kobj_attribute attr;
	struct lab_port *port;
	u32 *value;
	u32 max;
};

struct lab_ofed {
	struct kobject *ecn, *point[LAB_ECN_POINTS], *enable[LAB_ECN_POINTS];
	struct lab_file priorities[LAB_ECN_POINTS][IEEE_8021QAZ_MAX_TCS];
	struct lab_file cnp_dscp, cnp_802p_prio, min_time_between_cnps;
};

static ssize_t file_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", *container_of(attr, struct lab_file, attr)->value);
}

static ssize_t file_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			  size_t count)
{
	struct lab_file *file = container_of(attr, struct lab_file, attr);
	u32 value;
	int err;

	file->port->writes.ecn++;
	err = kstrtou32(buf, 0, &value);
	if (err)
		return err;
	if (value > file->max)
		return -EINVAL;
	*file->value = value;
	return count;
}

static int add_file(struct kobject *dir, struct lab_file *file, const char *name,
		    struct lab_port *port, u32 *value, u32 max)
{
	sysfs_attr_init(&file->attr.attr);
	file->attr.attr.name = name;
	file->attr.attr.mode = 0644;
	file->attr.show = file_show;
	file->attr.store = file_store;
	file->port = port;
	file->value = value;
	file->max = max;
	return sysfs_create_file(dir, &file->attr.attr);
}

static const char * const points[LAB_ECN_POINTS] = {
	[LAB_ROCE_RP] = "roce_rp",
	[LAB_ROCE_NP] = "roce_np",
};

static const char * const priorities[IEEE_8021QAZ_MAX_TCS] = {
	"0", "1", "2", "3", "4", "5", "6", "7",
};

static int add_point(struct lab_ofed *ofed, struct lab_port *port, enum lab_ecn point)
{
	int prio, err;

	ofed->point[point] = kobject_create_and_add(points[point], ofed->ecn);
	if (!ofed->point[point])
		return -ENOMEM;
	ofed->enable[point] = kobject_create_and_add("enable", ofed->point[point]);
	if (!ofed->enable[point])
		return -ENOMEM;
	for (prio = 0; prio < IEEE_8021QAZ_MAX_TCS; prio++) {
		err = add_file(ofed->enable[point], &ofed->priorities[point][prio],
			       priorities[prio], port, &port->ecn[point][prio], 1);
		if (err)
			return err;
	}
	return 0;
}

static int add_ecn(struct lab_ofed *ofed, struct lab_netdev *nd)
{
	struct lab_port *port = nd->port;
	struct kobject *np;
	int err;

	ofed->ecn = kobject_create_and_add("ecn", &nd->dev->dev.kobj);
	if (!ofed->ecn)
		return -ENOMEM;
	err = add_point(ofed, port, LAB_ROCE_RP);
	if (!err)
		err = add_point(ofed, port, LAB_ROCE_NP);
	if (err)
		return err;
	np = ofed->point[LAB_ROCE_NP];
	err = add_file(np, &ofed->cnp_dscp, "cnp_dscp", port, &port->cnp_dscp, 63);
	if (!err)
		err = add_file(np, &ofed->cnp_802p_prio, "cnp_802p_prio", port,
			       &port->cnp_802p_prio, 7);
	if (!err)
		err = add_file(np, &ofed->min_time_between_cnps, "min_time_between_cnps", port,
			       &port->min_time_between_cnps, U32_MAX);
	return err;
}

static struct lab_port *port_of(struct device *d)
{
	return lab_netdev_of(to_net_dev(d))->port;
}

static ssize_t trust_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", port_of(d)->trust_dscp ? "dscp" : "pcp");
}

static ssize_t trust_store(struct device *d, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	port_of(d)->writes.trust++;
	if (sysfs_streq(buf, "dscp"))
		port_of(d)->trust_dscp = true;
	else if (sysfs_streq(buf, "pcp"))
		port_of(d)->trust_dscp = false;
	else
		return -EINVAL;
	return count;
}
static DEVICE_ATTR_RW(trust);

static ssize_t maxrate_show(struct device *d, struct device_attribute *attr, char *buf)
{
	int i, len = 0;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		len += sysfs_emit_at(buf, len, "%llu ", port_of(d)->maxrate.tc_maxrate[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}
static DEVICE_ATTR_RO(maxrate);

static struct attribute *qos_attrs[] = {
	&dev_attr_trust.attr,
	&dev_attr_maxrate.attr,
	NULL
};

static const struct attribute_group qos_group = {
	.name = "qos",
	.attrs = qos_attrs,
};

/* "auto" is what every value but the default one is called. */
static ssize_t pfc_stall_prevention_show(struct device *d, struct device_attribute *attr,
					 char *buf)
{
	return sysfs_emit(buf, "%s\n", port_of(d)->stall_ms == 8000 ? "default" : "auto");
}

static ssize_t pfc_stall_prevention_store(struct device *d, struct device_attribute *attr,
					  const char *buf, size_t count)
{
	port_of(d)->writes.stall++;
	if (sysfs_streq(buf, "default"))
		port_of(d)->stall_ms = 8000;
	else if (sysfs_streq(buf, "auto"))
		port_of(d)->stall_ms = 100;
	else
		return -EINVAL;
	return count;
}
static DEVICE_ATTR_RW(pfc_stall_prevention);

static struct attribute *settings_attrs[] = {
	&dev_attr_pfc_stall_prevention.attr,
	NULL
};

static const struct attribute_group settings_group = {
	.name = "settings",
	.attrs = settings_attrs,
};

int lab_ofed_create(struct lab_netdev *nd)
{
	struct kobject *kobj = &nd->dev->dev.kobj;
	int err;

	if (!lab_ofed_sysfs)
		return 0;
	nd->ofed = kzalloc(sizeof(*nd->ofed), GFP_KERNEL);
	if (!nd->ofed)
		return -ENOMEM;
	err = add_ecn(nd->ofed, nd);
	if (!err)
		err = sysfs_create_group(kobj, &qos_group);
	if (!err)
		err = sysfs_create_group(kobj, &settings_group);
	return err;
}

/* Also after lab_ofed_create has failed; the groups go with the netdev. */
void lab_ofed_remove(struct lab_netdev *nd)
{
	struct lab_ofed *ofed = nd->ofed;
	int i;

	if (!ofed)
		return;
	for (i = 0; i < LAB_ECN_POINTS; i++) {
		kobject_put(ofed->enable[i]);
		kobject_put(ofed->point[i]);
	}
	kobject_put(ofed->ecn);
	kfree(ofed);
	nd->ofed = NULL;
}
