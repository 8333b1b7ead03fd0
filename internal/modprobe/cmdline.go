package modprobe

import "strings"

// CmdlineConfig is what the kernel command line says about modules. Names keep
// the spelling of the command line where the reader of the argument compares
// them with the kernel's spelling as they stand: a hyphen there matches no
// module.
type CmdlineConfig struct {
	// Blacklist are the names in modprobe.blacklist=, with the effect of a
	// blacklist line, as they stand.
	Blacklist []string `json:"blacklist,omitempty"`
	// Denied are the names in module_blacklist=, which the kernel refuses to
	// load at all, as they stand. Only the last such argument counts
	// (kernel/module/main.c).
	Denied []string `json:"denied,omitempty"`
	// InitramfsBlacklist are the names in rd.driver.blacklist=, normalised:
	// dracut's initramfs does not load them, the real root may.
	InitramfsBlacklist []string `json:"initramfs_blacklist,omitempty"`
	// ModulesLoad are the names in modules_load= (or modules-load=), normalised,
	// which systemd-modules-load loads ahead of its files.
	ModulesLoad []string `json:"modules_load,omitempty"`
	// Options holds an options statement for every MODULE.PARAM[=VALUE].
	Options []Statement `json:"options,omitempty"`
}

// cmdlineOrigin is the Origin of statements read from the command line.
var cmdlineOrigin = Origin{File: "/proc/cmdline", Line: 1}

// FromCommandLine reads the arguments of a kernel command line, one per element,
// with or without their quotes. Any dotted argument is an option of a module for kmod
// (kmod_config_parse_kcmdline), so that Options also holds what is meant for
// others, such as systemd.unit=.
func FromCommandLine(args []string) CmdlineConfig {
	var c CmdlineConfig
	for _, arg := range args {
		// A boot loader may move the opening quote in front of the name.
		arg, quoted := strings.CutPrefix(arg, `"`)
		key, value, assigned := strings.Cut(arg, "=")
		bare := strings.Trim(value, `"`)
		switch strings.ReplaceAll(key, "-", "_") {
		case "modprobe.blacklist":
			c.Blacklist = append(c.Blacklist, names(bare)...)
			continue
		case "module_blacklist":
			c.Denied = names(bare)
			continue
		case "rd.driver.blacklist":
			c.InitramfsBlacklist = append(c.InitramfsBlacklist, normalNames(bare)...)
			continue
		case "modules_load":
			c.ModulesLoad = append(c.ModulesLoad, normalNames(bare)...)
			continue
		}
		module, param, dotted := strings.Cut(key, ".")
		if !dotted || checkField(module) != nil || param == "" || strings.ContainsAny(param, `."`+whitespace) {
			continue
		}
		if quoted {
			value = `"` + value
		} else if strings.ContainsAny(value, whitespace) && !strings.Contains(value, `"`) {
			value = `"` + value + `"`
		}
		if assigned {
			param += "=" + value
		}
		c.Options = append(c.Options, Statement{Verb: Options, Module: Normalize(module), Args: param, Origin: cmdlineOrigin})
	}
	return c
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func normalNames(list string) []string {
	all := names(list)
	for i, n := range all {
		all[i] = Normalize(n)
	}
	return all
}

// With returns the statements of c followed by those of the command line, as
// kmod joins them: options of the command line come last and win.
func (c Config) With(cmdline CmdlineConfig) Config {
	joined := Config{Statements: append([]Statement(nil), c.Statements...)}
	for _, name := range cmdline.Blacklist {
		joined.Statements = append(joined.Statements, Statement{Verb: Blacklist, Module: name, Origin: cmdlineOrigin})
	}
	joined.Statements = append(joined.Statements, cmdline.Options...)
	return joined
}
