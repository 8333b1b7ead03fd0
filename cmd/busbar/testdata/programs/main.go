// Command programs stands for the programs that busbar runs, in trees that have
// no others: it is env, modprobe or update-grub, whichever it is called. It is linked statically,
// so that it runs in a tree without libraries.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	run := map[string]func([]string) error{"env": env, "modprobe": modprobe, "update-grub": updateGRUB}[filepath.Base(os.Args[0])]
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

func env(args []string) error {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, args, os.Environ())
}

// modprobe makes the module's directory in /sys/module, which is no sysfs here. Where
// /srv/modprobe-wait exists it says in /srv/modprobe-started that it runs, and waits
// until the other file is gone, whatever signals it gets.
func modprobe(args []string) error {
	if _, err := os.Stat("/srv/modprobe-wait"); err == nil {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		if err := os.WriteFile("/srv/modprobe-started", nil, 0o600); err != nil {
			return err
		}
		for err == nil {
			time.Sleep(5 * time.Millisecond)
			_, err = os.Stat("/srv/modprobe-wait")
		}
	}
	if args[0] == "-r" {
		return os.RemoveAll("/sys/module/" + args[1])
	}
	dir := "/sys/module/" + args[0]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(dir+"/initstate", []byte("live\n"), 0o600)
}

// updateGRUB makes grub.cfg, or what -o names, of the defaults as grub-mkconfig and 10_linux do,
// except that it knows no other shell than NAME="...$NAME..." and NAME='...'.
func updateGRUB(args []string) error {
	config := "/boot/grub/grub.cfg"
	if len(args) == 2 && args[0] == "-o" {
		config = args[1]
	}
	files, _ := filepath.Glob("/etc/default/grub.d/*.cfg") // the pattern is valid
	variables := map[string]string{}
	for _, file := range append([]string{"/etc/default/grub"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok || strings.HasPrefix(name, "#") {
				continue
			}
			if quote := value[:min(1, len(value))]; quote == `"` || quote == "'" {
				if value, _, ok = strings.Cut(value[1:], quote); !ok {
					return fmt.Errorf("%s: unterminated quoted string", file)
				}
			}
			variables[name] = os.Expand(value, func(name string) string { return variables[name] })
		}
	}
	kernels, _ := filepath.Glob("/boot/vmlinuz-*") // the pattern is valid
	if len(kernels) == 0 {
		return errors.New("no kernel in /boot")
	}
	const both, normal = "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"
	var out bytes.Buffer
	for _, kernel := range kernels {
		entry := func(title, args string) {
			fmt.Fprintf(&out, "menuentry 'Debian GNU/Linux, %s' --class gnu-linux {\n\tlinux\t%s root=UUID=5f0a1c9e-3d52-4c19-8f0e-6f2b9a7d1e04 ro %s\n}\n", title, kernel, args)
		}
		entry(filepath.Base(kernel), variables[both]+" "+variables[normal])
		entry(filepath.Base(kernel)+" (recovery mode)", "single "+variables[both])
	}
	if err := os.WriteFile(config+".new", out.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(config+".new", config)
}
