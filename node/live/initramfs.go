package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"busbar/internal/initramfs"
	"busbar/internal/modprobe"
	"busbar/internal/nextboot"
	"busbar/node"
)

// initramfsTime bounds the unpacking of an image: 300 MB take 3 s with gzip or zstd, and far longer with xz.
const initramfsTime = time.Minute

// updateInitramfsConf is update-initramfs.conf(5).
const updateInitramfsConf = "/etc/initramfs-tools/update-initramfs.conf"

// nextImage is the initramfs that boots next.
type nextImage struct {
	initramfs.Image
	state  node.InitramfsState
	source node.Source
	// reason says why nothing is known of it.
	reason string
}

// initramfs reads what the initramfs that boots next holds of a module.
func (s *session) initramfs(module string) node.Value[node.InitramfsState] {
	if err := modprobe.CheckName(module); module != "" && err != nil {
		return node.Unknown[node.InitramfsState](err.Error(), node.Source{})
	}
	next := s.nextImage()
	if next.reason != "" {
		return node.Unknown[node.InitramfsState](next.reason, next.source)
	}
	state := next.state
	if module == "" {
		state.Modules = slices.Sorted(maps.Keys(next.Modules))
		return node.Known(state, next.source)
	}
	state.Module = next.Modules[modprobe.Normalize(module)]
	state.Files = modprobe.About(next.Files, module)
	return node.Known(state, next.source)
}

// readNextImage finds the initramfs that boots next, and unpacks it.
func (s *session) readNextImage() nextImage {
	next := s.findNextImage()
	if next.reason != "" || next.state.Image == "" {
		return next
	}
	next.state.Generator = s.generator()
	next.state.Frozen = s.frozen()
	ctx, cancel := context.WithTimeoutCause(s.ctx, initramfsTime, fmt.Errorf("it was not unpacked in %s", initramfsTime))
	defer cancel()
	image, err := s.unpack(ctx, next.state.Image)
	if err != nil {
		next.reason = reason(err)
	}
	next.Image = image
	return next
}

// findNextImage takes the image from the entry that GRUB boots next, and where GRUB's entries are not read, that
// of the running kernel, or of the only one that is installed.
func (s *session) findNextImage() nextImage {
	v := s.boot("")
	boot, ok := v.Get()
	if !ok {
		return nextImage{reason: v.Reason(), source: v.Source()}
	}
	state, err := nextboot.Read(boot)
	var unsupported *nextboot.UnsupportedError
	switch {
	case errors.As(err, &unsupported), err == nil && !state.Generated:
		return s.imageOfKernel()
	case err != nil:
		return nextImage{reason: err.Error(), source: v.Source()}
	case state.Pinned != "":
		return nextImage{reason: fmt.Sprintf("%s boots %q, which is no entry of this root", state.PinnedBy, state.Pinned), source: state.PinnedAt}
	}
	line := state.Lines[state.Next]
	next := nextImage{source: line.Source, state: node.InitramfsState{Kernel: line.Release}}
	if len(line.Images) == 0 {
		return next
	}
	// What comes before the last is microcode.
	next.state.Image = line.Images[len(line.Images)-1]
	next.source = node.Source{Path: next.state.Image}
	if next.state.Kernel == "" {
		_, next.state.Kernel, _ = strings.Cut(path.Base(next.state.Image), "-")
	}
	return next
}

// imageOfKernel finds the image by the names that distributions give it: initramfs-tools, dracut (Fedora), dracut (SUSE).
func (s *session) imageOfKernel() nextImage {
	release, err := s.attribute("/proc/sys/kernel/osrelease")
	if !s.running {
		var kernels []kernelModules
		kernels, err = s.kernels()
		if err == nil && len(kernels) != 1 {
			err = refusal(fmt.Sprintf("it has %d kernels, and no boot entry says which one boots", len(kernels)))
		}
		if err == nil {
			release = kernels[0].release
		}
	}
	if err != nil {
		return nextImage{reason: reason(err), source: node.Source{Path: modulesDir}}
	}
	for _, p := range []string{"/boot/initrd.img-" + release, "/boot/initramfs-" + release + ".img", "/boot/initrd-" + release} {
		if s.exists(p) {
			return nextImage{state: node.InitramfsState{Kernel: release, Image: p}, source: node.Source{Path: p}}
		}
	}
	return nextImage{reason: "no initramfs of kernel " + release + " is there", source: node.Source{Path: "/boot"}}
}

// generator tells who makes images here. dracut brings an update-initramfs of its own on some distributions, but no
// mkinitramfs.
func (s *session) generator() string {
	switch {
	case s.anyExists("/usr/sbin/mkinitramfs", "/sbin/mkinitramfs") && s.anyExists("/usr/sbin/update-initramfs", "/sbin/update-initramfs"):
		return node.GeneratorInitramfsTools
	case s.anyExists("/usr/bin/dracut", "/usr/sbin/dracut", "/sbin/dracut"):
		return node.GeneratorDracut
	case s.anyExists("/usr/bin/mkinitcpio", "/usr/sbin/mkinitcpio"):
		return node.GeneratorMkinitcpio
	case s.anyExists("/usr/bin/booster", "/usr/sbin/booster"):
		return node.GeneratorBooster
	default:
		return ""
	}
}

// frozen is the line by which update-initramfs -u does nothing. The shell reads that file: its last assignment counts.
func (s *session) frozen() (at node.Source) {
	text, _ := s.read(updateInitramfsConf) // without it images are updated
	n := 0
	for line := range strings.Lines(text) {
		n++
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "update_initramfs=")
		if !ok {
			continue
		}
		at = node.Source{}
		if strings.Trim(value, `"'`) == "no" {
			at = node.Source{Path: updateInitramfsConf, Line: n}
		}
	}
	return at
}

// unpack reads an image as long as ctx lasts.
func (s *session) unpack(ctx context.Context, image string) (initramfs.Image, error) {
	fd, _, err := s.open(image)
	if err != nil {
		return initramfs.Image{}, err
	}
	f := os.NewFile(uintptr(fd), image)
	defer closeAll(f)
	return initramfs.Read(untilDone{ctx, f})
}

// untilDone reads until ctx is done.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

// Read fails with what ended ctx.
func (u untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(b)
}
