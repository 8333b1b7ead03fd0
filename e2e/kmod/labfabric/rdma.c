// SPDX-License-Identifier: GPL-2.0
/*
 * labrdma: what a software RDMA device (rxe, siw) lacks of a NIC's. One whose
 * netdev belongs to a PCI function gets the link `device` to that function, and
 * tc/1/traffic_class as MLNX_OFED's mlx5_ib has it. Nothing heeds the traffic class,
 * nor a link layer that was told to be InfiniBand.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/sysfs.h>
#include <rdma/ib_verbs.h>

static bool ofed;
module_param(ofed, bool, 0444);
MODULE_PARM_DESC(ofed, "tc/1/traffic_class");

static char *infiniband = "";
module_param(infiniband, charp, 0444);
MODULE_PARM_DESC(infiniband, "name of a device whose link layer is told to be InfiniBand");

struct lab_rdma {
	struct kobject *tc, *port;
	struct kobj_attribute traffic_class;
	int value;			/* -1 before the first write */
};

static ssize_t traffic_class_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct lab_rdma *r = container_of(attr, struct lab_rdma, traffic_class);

	if (r->value < 0)
		return 0;
	return sysfs_emit(buf, "Global tclass=%d\n", r->value);
}

static ssize_t traffic_class_store(struct kobject *kobj, struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	struct lab_rdma *r = container_of(attr, struct lab_rdma, traffic_class);
	int value;

	if (!strncmp(buf, "tclass=", 7))
		buf += 7;
	if (kstrtoint(buf, 0, &value) || value > 0xff)
		return -EINVAL;
	r->value = value;
	return count;
}

static int add_traffic_class(struct ib_device *ibdev, struct lab_rdma *r)
{
	r->tc = kobject_create_and_add("tc", &ibdev->dev.kobj);
	if (!r->tc)
		return -ENOMEM;
	r->port = kobject_create_and_add("1", r->tc);
	if (!r->port)
		return -ENOMEM;
	sysfs_attr_init(&r->traffic_class.attr);
	r->traffic_class.attr.name = "traffic_class";
	r->traffic_class.attr.mode = 0644;
	r->traffic_class.show = traffic_class_show;
	r->traffic_class.store = traffic_class_store;
	r->value = -1;
	return sysfs_create_file(r->port, &r->traffic_class.attr);
}

static enum rdma_link_layer infiniband_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

/* The PCI function of the netdev that an RDMA device was made on, with a reference. */
static struct device *function_of(struct ib_device *ibdev)
{
	struct device *parent = NULL;
	struct net_device *dev;

	rcu_read_lock();
	for_each_netdev_rcu(&init_net, dev) {
		struct ib_device *on = ib_device_get_by_netdev(dev, RDMA_DRIVER_UNKNOWN);

		if (!on)
			continue;
		ib_device_put(on);
		if (on == ibdev && dev->dev.parent && dev_is_pci(dev->dev.parent)) {
			parent = get_device(dev->dev.parent);
			break;
		}
	}
	rcu_read_unlock();
	return parent;
}

static void lab_rdma_remove(struct ib_device *ibdev, void *data)
{
	struct lab_rdma *r = data;

	sysfs_remove_link(&ibdev->dev.kobj, "device");
	kobject_put(r->port);
	kobject_put(r->tc);
	kfree(r);
}

static struct ib_client client;

static int lab_rdma_add(struct ib_device *ibdev)
{
	struct device *parent;
	struct lab_rdma *r;
	int err;

	if (ibdev->dev.parent)
		return -EOPNOTSUPP;	/* has a device of its own */
	parent = function_of(ibdev);
	if (!parent)
		return -EOPNOTSUPP;
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	err = r ? sysfs_create_link(&ibdev->dev.kobj, &parent->kobj, "device") : -ENOMEM;
	put_device(parent);
	if (err) {
		kfree(r);
		return err;
	}
	if (!strcmp(dev_name(&ibdev->dev), infiniband))
		ibdev->ops.get_link_layer = infiniband_layer;
	if (ofed)
		err = add_traffic_class(ibdev, r);
	if (err) {
		lab_rdma_remove(ibdev, r);
		return err;
	}
	ib_set_client_data(ibdev, &client, r);
	return 0;
}

static struct ib_client client = {
	.name = "labrdma",
	.add = lab_rdma_add,
	.remove = lab_rdma_remove,
};

static int __init labrdma_init(void)
{
	return ib_register_client(&client);
}

static void __exit labrdma_exit(void)
{
	ib_unregister_client(&client);
}

module_init(labrdma_init);
module_exit(labrdma_exit);
MODULE_DESCRIPTION("Lab: software RDMA devices that look like those of a NIC");
MODULE_LICENSE("GPL");
