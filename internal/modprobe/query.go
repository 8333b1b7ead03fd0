package modprobe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
)

// Blacklisted returns every line that blacklists module. systemd-modules-load
// and udev (loading by alias) obey it, `modprobe MODULE` does not: the module
// can be loaded now and still be missing after the next boot.
func (c Config) Blacklisted(module string) []Origin {
	var at []Origin
	for _, s := range c.Statements {
		if s.Verb == Blacklist && s.Module == Normalize(module) {
			at = append(at, s.Origin)
		}
	}
	return at
}

// About returns the files that have a statement of a module, and those that cannot be read.
func About(files []confdir.File, module string) []confdir.File {
	var about []confdir.File
	for _, f := range files {
		config, _ := ParseModprobe([]confdir.File{f})
		if f.Reason != "" || slices.ContainsFunc(config.Statements, func(s Statement) bool { return match(s.Module, Normalize(module)) }) {
			about = append(about, f)
		}
	}
	return about
}

// Install returns the command that is run instead of loading module. The first
// matching statement counts, and its name may be a shell pattern
// (kmod_module_get_install_commands).
func (c Config) Install(module string) (command string, at Origin, found bool) {
	for _, s := range c.Statements {
		if s.Verb == Install && match(s.Module, Normalize(module)) {
			return s.Args, s.Origin, true
		}
	}
	return "", Origin{}, false
}

// match is fnmatch(3) without flags for names that hold no slash.
func match(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return ok && err == nil
}

// Refuses reports whether an install command does nothing but keep the module
// out: true, false, ":" or exit.
func Refuses(command string) bool {
	command, _, _ = strings.Cut(command, " #")
	words := strings.Fields(command)
	if len(words) == 0 || strings.ContainsAny(command, ";|&`(<>") {
		return false
	}
	switch dir, name := path.Split(words[0]); name {
	case "true", "false":
		return slices.Contains([]string{"", "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"}, dir)
	case ":", "exit":
		return dir == ""
	}
	return false
}

// Option is one module parameter in force.
type Option struct {
	// Key is the parameter's name; '-' and '_' are equal, the underscore is used.
	Key string `json:"key"`
	// Value is what the module gets, without the quotes that the kernel strips.
	// It is empty too where Text has no '=', which only boolean parameters take.
	Value string `json:"value"`
	// Text is the option as it is written, quotes included.
	Text string `json:"text"`
	Origin
}

// Options returns the parameters that module is given when it is loaded, each
// once, in the order of the lines that win. All options statements add up in
// file order and of a parameter given twice the last value stays in force.
// Options that hang on an alias of the module are not seen.
func (c Config) Options(module string) []Option {
	var all []Option
	for _, s := range c.Statements {
		if s.Verb == Options && s.Module == Normalize(module) {
			all = append(all, splitOptions(s)...)
		}
	}
	last := map[string]int{}
	for i, o := range all {
		last[o.Key] = i
	}
	var inForce []Option
	for i, o := range all {
		if last[o.Key] == i {
			inForce = append(inForce, o)
		}
	}
	return inForce
}

// isSpace is the kernel's isspace (lib/ctype.c), which works on Latin-1 bytes.
func isSpace(c byte) bool { return c == 0xa0 || strings.IndexByte(whitespace, c) >= 0 }

// QuoteValue spells the value of a parameter in an options statement: in double quotes
// where it holds white space, unless it has quotes of its own.
func QuoteValue(value string) string {
	if strings.Contains(value, `"`) || !slices.ContainsFunc([]byte(value), isSpace) {
		return value
	}
	return `"` + value + `"`
}

// CheckOption says why an options statement cannot give a module the parameter KEY with
// VALUE, spelt by QuoteValue: kmod and the kernel must read exactly this one
// parameter back, without the pair of quotes that may stand around the value.
func CheckOption(key, value string) error {
	s := Statement{Verb: Options, Module: "m", Args: key + "=" + QuoteValue(value)}
	switch {
	case s.Args != strings.Trim(s.Args, whitespace):
		return fmt.Errorf("%q begins or ends with a blank", s.Args)
	case strings.ContainsFunc(s.Args, isControl):
		return fmt.Errorf("%q holds a control character", s.Args)
	}
	if strings.Count(s.Args, `"`)%2 != 0 {
		return fmt.Errorf("%s: a quote is not closed", s.Args)
	}
	bare := value
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		bare = value[1 : n-1]
	}
	config, _ := ParseModprobe([]confdir.File{{Path: "busbar.conf", Text: RenderModprobe([]Statement{s})}})
	read := config.Options(s.Module)
	if key == "" || len(read) != 1 || read[0].Key != strings.ReplaceAll(key, "-", "_") || read[0].Value != bare {
		return fmt.Errorf("%s: the kernel would not read it as the parameter %q with the value %q", s.Args, key, bare)
	}
	return nil
}

// splitOptions splits parameters as the kernel does (next_arg in lib/cmdline.c,
// parse_args in kernel/params.c): quotes group blanks, the first '=' ends the
// name, one pair of quotes around the value or the whole is stripped, "--" ends
// the list.
func splitOptions(s Statement) []Option {
	var options []Option
	for rest := s.Args; rest != ""; {
		end, quoted := 0, false
		for ; end < len(rest); end++ {
			if rest[end] == '"' {
				quoted = !quoted
			} else if !quoted && isSpace(rest[end]) {
				break
			}
		}
		text := rest[:end]
		rest = rest[min(end+1, len(rest)):]
		if text == "" {
			continue
		}
		if text == "--" {
			break
		}
		word, whole := strings.CutPrefix(text, `"`)
		key, value, _ := strings.Cut(word, "=")
		value, own := strings.CutPrefix(value, `"`)
		if whole || own {
			value = strings.TrimSuffix(value, `"`)
			if !strings.Contains(word, "=") {
				key = strings.TrimSuffix(key, `"`)
			}
		}
		options = append(options, Option{
			Key:    strings.ReplaceAll(key, "-", "_"),
			Value:  strings.ReplaceAll(value, "\t", " "), // kmod_config_add_options
			Text:   text,
			Origin: s.Origin,
		})
	}
	return options
}
