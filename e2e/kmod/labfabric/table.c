// SPDX-License-Identifier: GPL-2.0
/*
 * The table, one root bus or function a line; # begins a comment, numbers of
 * registers and buses are hexadecimal:
 *
 *   bus DOMAIN:FIRST-LAST node=N
 *   DOMAIN:BUS:DEVICE.FUNCTION id=VENDOR:DEVICE class=CLASS KEY=VALUE...
 *
 * with the keys subsystem=VENDOR:DEVICE, type= (root, upstream, downstream,
 * endpoint, integrated, bridge: without it the function has no PCIe capability),
 * bus=SECONDARY-SUBORDINATE, devcap=, devctl=, lnkcap=, lnksta=, acscap= and
 * acsctl= (a function with acscap has ACS), atsctl= (with it, ATS),
 * netdev=NAME or netdev=NAME/PORT.
 */
#include <linux/kernel_read_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "labfabric.h"

static const struct {
	const char *name;
	int type;
} types[] = {
	{ "root", PCI_EXP_TYPE_ROOT_PORT },
	{ "upstream", PCI_EXP_TYPE_UPSTREAM },
	{ "downstream", PCI_EXP_TYPE_DOWNSTREAM },
	{ "endpoint", PCI_EXP_TYPE_ENDPOINT },
	{ "integrated", PCI_EXP_TYPE_RC_END },
	{ "bridge", PCI_EXP_TYPE_PCI_BRIDGE },
};

static int parse_type(const char *name, int *type)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		if (!strcmp(types[i].name, name)) {
			*type = types[i].type;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_netdev(char *value, struct lab_line *line)
{
	char *name = strsep(&value, "/");
	unsigned int port = 1;

	if (value && kstrtouint(value, 10, &port))
		return -EINVAL;
	if (port < 1 || port > LAB_MAX_PORTS || !dev_valid_name(name))
		return -EINVAL;
	strscpy(line->ports[port - 1], name, IFNAMSIZ);
	return 0;
}

static int parse_hex(const char *value, u32 *reg)
{
	return kstrtou32(value, 16, reg);
}

static int parse_pair(const char *value, const char *format, unsigned int *a, unsigned int *b)
{
	return sscanf(value, format, a, b) == 2 ? 0 : -EINVAL;
}

static int parse_key(const char *key, char *value, struct lab_line *line)
{
	if (!strcmp(key, "id"))
		return parse_pair(value, "%x:%x", &line->vendor, &line->id);
	if (!strcmp(key, "subsystem"))
		return parse_pair(value, "%x:%x", &line->subsystem_vendor, &line->subsystem_id);
	if (!strcmp(key, "bus"))
		return parse_pair(value, "%x-%x", &line->secondary, &line->subordinate);
	if (!strcmp(key, "class"))
		return parse_hex(value, &line->class);
	if (!strcmp(key, "type"))
		return parse_type(value, &line->type);
	if (!strcmp(key, "devcap"))
		return parse_hex(value, &line->devcap);
	if (!strcmp(key, "devctl"))
		return parse_hex(value, &line->devctl);
	if (!strcmp(key, "lnkcap"))
		return parse_hex(value, &line->lnkcap);
	if (!strcmp(key, "lnksta"))
		return parse_hex(value, &line->lnksta);
	if (!strcmp(key, "acscap")) {
		line->has_acs = true;
		return parse_hex(value, &line->acscap);
	}
	if (!strcmp(key, "acsctl"))
		return parse_hex(value, &line->acsctl);
	if (!strcmp(key, "atsctl")) {
		line->has_ats = true;
		return parse_hex(value, &line->atsctl);
	}
	if (!strcmp(key, "netdev"))
		return parse_netdev(value, line);
	return -EINVAL;
}

static int parse_bus(char *words)
{
	unsigned int domain, first, last;
	int node;

	if (sscanf(words, "%x:%x-%x node=%d", &domain, &first, &last, &node) != 4)
		return -EINVAL;
	if (first > last || last > 0xff)
		return -EINVAL;
	return PTR_ERR_OR_ZERO(lab_add_root(domain, first, last, node));
}

static int parse_function(char *address, char *words)
{
	struct lab_line line = { .type = LAB_NO_PCIE };
	char *word;
	int err;

	if (sscanf(address, "%x:%x:%x.%x", &line.domain, &line.bus, &line.device,
		   &line.function) != 4)
		return -EINVAL;
	if (line.bus > 0xff || line.device > 31 || line.function > 7)
		return -EINVAL;
	while ((word = strsep(&words, " \t"))) {
		char *key = strsep(&word, "=");

		if (!*key && !word)
			continue;
		if (!word)
			return -EINVAL;
		err = parse_key(key, word, &line);
		if (err)
			return err;
	}
	if (!line.vendor || line.vendor > 0xffff || line.id > 0xffff ||
	    line.class > 0xffffff || line.subordinate > 0xff ||
	    line.secondary > line.subordinate)
		return -EINVAL;
	return lab_add_function(&line);
}

static int parse_line(char *text)
{
	char *first;

	text = strim(text);
	if (!*text)
		return 0;
	first = strsep(&text, " \t");
	if (!text)
		return -EINVAL;
	if (!strcmp(first, "bus"))
		return parse_bus(text);
	return parse_function(first, text);
}

int lab_read_table(const char *path)
{
	char *text, *rest, *line;
	void *file = NULL;
	ssize_t size;
	int nr = 0, err = 0;

	size = kernel_read_file_from_path(path, 0, &file, SZ_1M, NULL, READING_UNKNOWN);
	if (size < 0) {
		pr_err("labfabric: reading %s: error %zd\n", path, size);
		return size;
	}
	text = kvmalloc(size + 1, GFP_KERNEL);
	if (text) {
		memcpy(text, file, size);
		text[size] = '\0';
	}
	vfree(file);
	if (!text)
		return -ENOMEM;

	rest = text;
	while (!err && (line = strsep(&rest, "\n"))) {
		nr++;
		line = strsep(&line, "#");
		err = parse_line(line);
	}
	if (err)
		pr_err("labfabric: %s:%d: error %d\n", path, nr, err);
	else if (list_empty(&lab_roots))
		err = -EINVAL;
	kvfree(text);
	return err;
}
