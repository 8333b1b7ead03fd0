package live

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"busbar/node"
)

// kernelConfig reads an option from where distributions put the running kernel's configuration, and else from where the kernel
// itself has it (CONFIG_IKCONFIG_PROC).
func (s *session) kernelConfig(option string) node.Value[string] {
	const osrelease, compressed = "/proc/sys/kernel/osrelease", "/proc/config.gz"
	release, err := s.read1(osrelease)
	if err != nil {
		return unknown[string](err, osrelease)
	}
	for _, p := range []string{"/boot/config-" + release, "/lib/modules/" + release + "/config"} {
		text, err := s.read(p)
		if absent(err) {
			continue
		}
		if err != nil {
			return unknown[string](err, p)
		}
		return node.Known(kernelOption(text, option), node.Source{Path: p})
	}
	b, err := s.readBytes(compressed, maxFile)
	if absent(err) {
		return node.Unknown[string]("neither /boot, nor /lib/modules, nor the kernel itself has its configuration", node.Source{Path: compressed})
	}
	if err != nil {
		return unknown[string](err, compressed)
	}
	text, err := unzip(b)
	if err != nil {
		return unknown[string](err, compressed)
	}
	return node.Known(kernelOption(text, option), node.Source{Path: compressed})
}

// unzip is the text of a small compressed file.
func unzip(b []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxFile {
		return "", errTooLarge
	}
	return text(content)
}

// kernelOption is the value of an option in a kernel's configuration (scripts/kconfig/confdata.c of Linux), "n" where it is not set.
func kernelOption(config, option string) string {
	for line := range strings.Lines(config) {
		if value, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), option+"="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return "n"
}
