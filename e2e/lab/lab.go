//go:build e2e

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Lab is where machines come from. Its fields are what was made, in the cache.
type Lab struct {
	disk    string // raw image of a Debian, bootable through its own GRUB
	booted  string // directory: disk.qcow2 and state of a machine that has booted that disk
	modules string // directory: the stand-in kernel modules
	micro   string // directory: vmlinuz, initramfs and state of the micro machine
}

// Open makes what is missing: programs (as root on Debian and Ubuntu), the image, the stand-in
// modules, the booted machines. What was made stays in $BUSBAR_LAB_CACHE, or else in
// $XDG_CACHE_HOME/busbar-lab, or else in /var/cache/busbar-lab, named by the digest of its recipe.
func Open(ctx context.Context, log func(format string, args ...any)) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("the lab makes a root file system with device nodes and owners: run it as root")
	}
	if err := install(ctx, log); err != nil {
		return nil, err
	}
	cache, err := filepath.Abs(cacheDir())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	return prepare(ctx, cache, log)
}

func cacheDir() string {
	if dir := os.Getenv("BUSBAR_LAB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "busbar-lab")
	}
	return "/var/cache/busbar-lab"
}

// lock waits for others that make an image in the same directory.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// needed are programs and files, and the packages in which Debian and Ubuntu have them.
var needed = map[string]string{
	qemu: "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "parted": "parted",
	"/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}

// install installs what is missing.
func install(ctx context.Context, log func(string, ...any)) error {
	missing := []string{}
	for program, pkg := range needed {
		if _, err := os.Stat(program); err == nil {
			continue
		}
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install what corresponds to Debian's packages %s", strings.Join(missing, ", "))
	}
	log("installing %s", strings.Join(missing, ", "))
	if err := command(ctx, "apt-get", "update", "-q"); err != nil {
		return err
	}
	return command(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends"}, missing...)...)
}

// command runs a program to its end; its output is shown when it fails.
func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}

// digest names what is made from the given parts.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// prepare makes what the cache does not have.
func prepare(ctx context.Context, cache string, log func(string, ...any)) (*Lab, error) {
	version, err := exec.CommandContext(ctx, qemu, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", qemu, err)
	}
	work, err := os.MkdirTemp(cache, "work-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	agentFile := filepath.Join(work, "agent")
	if err := Build(ctx, agentFile, "./agent", "-tags", "e2e"); err != nil {
		return nil, err
	}
	agent, err := os.ReadFile(agentFile)
	if err != nil {
		return nil, err
	}
	sources, err := readStandIns()
	if err != nil {
		return nil, err
	}

	treeDigest := digest(suite, strings.Join(packages, " "), essential, strings.Join(excluded, " "))
	diskDigest := digest(treeDigest, fmt.Sprint(laid, linked, masked, removed, diskMiB, rootStartMiB, rootEndMiB), string(agent))
	named := func(what string, parts ...string) string {
		return filepath.Join(cache, what+"-"+digest(parts...))
	}
	rootTar := filepath.Join(cache, "root-"+treeDigest+".tar")
	l := &Lab{
		disk:    filepath.Join(cache, "disk-"+diskDigest+".img"),
		booted:  named("booted", diskDigest, string(version), fmt.Sprint(Intel.hardware())),
		modules: named("modules", treeDigest, fmt.Sprint(sources), buildStandIns),
		micro:   named("micro", treeDigest, makeInitramfs, microInit, string(agent), string(version), fmt.Sprint(Micro.hardware())),
	}
	// The tree is changed by what is made in it: the disk comes first.
	tree := sync.OnceValues(func() (string, error) {
		root := filepath.Join(work, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			return "", err
		}
		return root, command(ctx, "tar", "--numeric-owner", "-xf", rootTar, "-C", root)
	})
	inTree := func(do func(root, product string) error) func(string) error {
		return func(product string) error {
			root, err := tree()
			if err != nil {
				return err
			}
			return do(root, product)
		}
	}
	for _, made := range []struct {
		what, file string
		make       func(product string) error
	}{
		{"the root file system", rootTar, func(product string) error { return makeRoot(ctx, product) }},
		{"the disk", l.disk, inTree(func(root, product string) error { return makeDisk(ctx, work, root, agent, product) })},
		{"a machine that has booted", l.booted, func(product string) error { return l.makeBooted(ctx, work, product) }},
		{"the stand-in modules", l.modules, inTree(func(root, product string) error { return makeModules(ctx, root, sources, product) })},
		{"a micro machine that has booted", l.micro, inTree(func(root, product string) error { return makeMicro(ctx, work, root, agent, product) })},
	} {
		if _, err := os.Stat(made.file); err == nil {
			continue
		}
		log("making %s (%s)", made.what, made.file)
		began := time.Now()
		product := filepath.Join(work, filepath.Base(made.file))
		if err := made.make(product); err != nil {
			return nil, fmt.Errorf("making %s: %w", made.what, err)
		}
		if err := os.Rename(product, made.file); err != nil {
			return nil, err
		}
		log("made in %s", time.Since(began).Round(time.Second))
	}
	return l, nil
}

// e2eDir is this module's e2e/.
func e2eDir() string {
	_, source, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(source))
}

// Build builds a command of this module, named relative to e2e/, as a static binary.
func Build(ctx context.Context, file, pkg string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-trimpath", "-buildvcs=false", "-tags", "static", "-o", file}, flags...), pkg)...)
	cmd.Dir = e2eDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// one is the only file that the pattern below root names.
func one(root, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for %s: %w", pattern, err)
	case len(found) != 1:
		return "", fmt.Errorf("%d files are %s in the tree, wanted is one", len(found), pattern)
	}
	return found[0], nil
}

// chroot runs a program in the image's tree.
func chroot(ctx context.Context, root string, argv ...string) error {
	return command(ctx, "env", append([]string{"-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "chroot", root}, argv...)...)
}
