package live

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"busbar/internal/confdir"
	"busbar/internal/grub"
	"busbar/node"

	"golang.org/x/sys/unix"
)

// boot finds the boot loader and reads what it is configured to boot.
func (s *session) boot(string) node.Value[node.BootConfig] {
	defaults, err := s.grubDefaults()
	if err != nil {
		return unknown[node.BootConfig](err, grub.FragmentDir)
	}
	b := node.BootConfig{
		Defaults:   defaults,
		UpdateGrub: s.anyExists("/usr/sbin/update-grub", "/sbin/update-grub"),
	}
	b.Loader = s.loader(b)
	source := node.Source{Path: grub.DefaultsFile}
	if b.Loader == node.LoaderGRUBDebian {
		if b.References, err = s.references(defaults); err != nil {
			return node.Unknown[node.BootConfig](err.Error(), source)
		}
		s.menu(&b)
		b.Outdated = b.Generated != "" && s.younger(grub.FragmentFile, generatedFile)
	}
	return node.Known(b, source)
}

// grubDefaults reads /etc/default/grub and its fragments in grub-mkconfig's order.
func (f files) grubDefaults() ([]confdir.File, error) {
	fragments, err := f.fragments([]string{grub.FragmentDir}, ".cfg")
	return append(f.present(grub.DefaultsFile), fragments...), err
}

func (f files) anyExists(paths ...string) bool { return slices.ContainsFunc(paths, f.exists) }

// loader tells the boot loaders apart by what they leave in the root.
func (s *session) loader(b node.BootConfig) string {
	os, osKnown := s.osRelease().Get()
	i := slices.IndexFunc(b.Defaults, func(f confdir.File) bool { return f.Path == grub.DefaultsFile })
	hasDefaults := i >= 0
	bls := hasDefaults && blsEnabled(b.Defaults[i].Text)
	if !bls && !b.UpdateGrub && s.exists("/boot/loader/entries") {
		bls = s.anyExists("/usr/sbin/grubby", "/sbin/grubby", "/boot/grub2") || os.Is("fedora", "rhel", "centos")
	}
	switch {
	case s.anyExists("/run/ostree-booted", "/sysroot/ostree/repo", "/ostree/repo"):
		return node.LoaderOSTree
	case bls:
		return node.LoaderGRUBBLS
	case hasDefaults && (b.UpdateGrub || os.Is("debian", "ubuntu") || s.exists("/boot/grub") || !osKnown && !s.exists("/boot/grub2")):
		return node.LoaderGRUBDebian
	case hasDefaults:
		return node.LoaderNone // a GRUB that neither update-grub nor grubby cares for
	case s.anyExists("/boot/efi/loader/loader.conf", "/efi/loader/loader.conf", "/boot/loader/loader.conf", "/etc/kernel/cmdline"):
		return node.LoaderSystemdBoot
	default:
		return node.LoaderNone
	}
}

// blsEnabled: the last assignment of GRUB_ENABLE_BLSCFG is true.
func blsEnabled(defaults string) bool {
	enabled := false
	for line := range strings.Lines(defaults) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "GRUB_ENABLE_BLSCFG="); ok {
			enabled = strings.Trim(v, `"'`) == "true"
		}
	}
	return enabled
}

// references reads the files that the defaults test or source.
func (s *session) references(defaults []confdir.File) ([]node.Reference, error) {
	var list []node.Reference
	var failed error
	_, err := grub.Evaluate(defaults, func(p string) (string, bool) {
		r := node.Reference{Path: p}
		if dir, ok := strings.CutSuffix(p, "/"); ok {
			st, err := s.stat(path.Join("/", dir))
			r.Exists = err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
		} else {
			text, err := s.read(p)
			r.Text, r.Exists = text, err == nil
			if err != nil && !absent(err) && !errors.Is(err, errIsDirectory) && failed == nil {
				failed = fmt.Errorf("%s, which the boot loader's defaults refer to: %s", p, reason(err))
			}
		}
		if !slices.ContainsFunc(list, func(old node.Reference) bool { return old.Path == p }) {
			list = append(list, r)
		}
		return r.Text, r.Exists
	})
	var syntax *grub.SyntaxError
	if err != nil && !errors.As(err, &syntax) { // a syntax error is for those to report who evaluate
		return nil, err
	}
	return list, failed
}

// generatedFile is the grub.cfg that the defaults are made into.
const generatedFile = "/boot/grub/grub.cfg"

// menu reads what GRUB reads: the grub.cfg that the defaults were made into, the entries
// that it takes in, and what selects among them.
func (s *session) menu(b *node.BootConfig) {
	for _, part := range []struct {
		path string
		text *string
	}{
		{generatedFile, &b.Generated}, {"/boot/grub/custom.cfg", &b.Custom}, {grub.EnvironmentFile, &b.Environment},
	} {
		text, err := s.read(part.path)
		if err != nil && !absent(err) {
			b.GeneratedReason = part.path + ": " + reason(err)
		}
		*part.text = text
	}
}

// younger reports whether file was written after other. A time in the future tells
// nothing: the clock was set back since.
func (f files) younger(file, other string) bool {
	a, err1 := f.stat(file)
	b, err2 := f.stat(other)
	written := time.Unix(a.Mtim.Unix())
	return err1 == nil && err2 == nil && written.After(time.Unix(b.Mtim.Unix())) && written.Before(time.Now())
}
