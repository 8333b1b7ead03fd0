// Package pciregstest has configuration spaces of real devices for tests.
package pciregstest

import (
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

//go:embed *.hex
var dumps embed.FS

// Config returns a configuration space as sysfs shows it to root: what NAME.hex holds, a line for
// the size and then rows "OFFSET: BYTES" in hexadecimal as lspci(8) prints them, without rows of zeros.
func Config(t testing.TB, name string) []byte {
	t.Helper()
	text, err := dumps.ReadFile(name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	var config []byte
	for line := range strings.Lines(string(text)) {
		var size, offset int
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscanf(line, "size %d", &size); err == nil {
			config = make([]byte, size)
			continue
		}
		at, row, _ := strings.Cut(line, ": ")
		if _, err := fmt.Sscanf(at, "%x", &offset); err != nil {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
		bytes, err := hex.DecodeString(strings.ReplaceAll(row, " ", ""))
		if err != nil || offset+len(bytes) > len(config) {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
		copy(config[offset:], bytes)
	}
	return config
}
