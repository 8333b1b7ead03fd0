package sink

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"busbar/internal/confdir"
	"busbar/internal/modprobe"
	"busbar/internal/nextboot"
	"busbar/node"
	"busbar/plan"
)

// InitramfsName is the name of the sink Initramfs.
const InitramfsName = "initramfs"

// Initramfs is the copy of modprobe.d in the initramfs, of the time when that was made: a module that it holds is loaded with
// what stands there. Keys are BlacklistKey, whose value is Present, and OptionKey as in Modprobe.
type Initramfs struct{}

// InInitramfs is a contribution to Modprobe, and the same to Initramfs: for what keeps a module out, and its
// options. That a module is to be loaded needs nothing there.
func InInitramfs(c plan.Contribution) []plan.Contribution {
	early := c
	early.Sink = InitramfsName
	return []plan.Contribution{c, early}
}

// Name is initramfs.
func (Initramfs) Name() string { return InitramfsName }

// initramfsPlace is where images stand.
var initramfsPlace = place{dirs: []string{"/boot"}, option: "boot.extraModprobeConfig"}

// Queries are what the initramfs holds of each module, modprobe.d, and what boots next. Without contributions there are none.
func (Initramfs) Queries(contributions []plan.Contribution) []node.Query {
	var queries []node.Query
	for _, module := range modulesOf(contributions) {
		queries = append(queries, node.Initramfs.Query(module))
	}
	if len(queries) == 0 {
		return nil
	}
	queries = append(queries, Modprobe{}.Queries(nil)...)
	return append(append(queries, initramfsPlace.queries()...), node.Boot.Query(""))
}

// modulesOf are the modules that contributions are about, each once, in their order.
func modulesOf(contributions []plan.Contribution) []string {
	var modules []string
	for _, c := range contributions {
		if module, _ := keyParts(c.Key); c.Key != "" && !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	return modules
}

// keyParts are the module of a BlacklistKey or an OptionKey, and the parameter of the latter.
func keyParts(key string) (module, parameter string) {
	_, rest, _ := strings.Cut(key, " ")
	module, parameter, _ = strings.Cut(rest, " ")
	return module, parameter
}

// initramfsAssessor judges the image of one node.
type initramfsAssessor struct {
	plan.Assessment
	facts node.Facts
	// root is modprobe.d as the steps of Modprobe leave it, and copied are its files that an image made then has.
	root   modprobe.Config
	copied []confdir.File
	// next is what the next boot's command line says of modules.
	next modprobe.CmdlineConfig
	// image is what is made anew, and held is what it must give the modules that it holds.
	image node.InitramfsState
	held  []plan.InitramfsModule
}

// Assess judges what each module gets in the initramfs by what it will get from the root's modprobe.d. Where that is wrong
// Modprobe says so.
func (Initramfs) Assess(contributions []plan.Contribution, facts node.Facts) plan.Assessment {
	contributions, _ = decided(contributions)
	a := initramfsAssessor{facts: facts}
	after := facts
	for _, s := range (Modprobe{}).Assess(contributions, facts).Steps {
		after = s.Action.Project(after)
	}
	files, ok := node.ModprobeFiles.Get(after, "").Get()
	if _, bad := unreadable(files); !ok || bad {
		return plan.Assessment{}
	}
	a.root, a.copied = modprobeConfig(files), plan.InitramfsCopy(files)
	a.commandLine()
	for _, module := range modulesOf(contributions) {
		a.judge(module, slices.DeleteFunc(slices.Clone(contributions), func(c plan.Contribution) bool {
			of, _ := keyParts(c.Key)
			return of != module
		}))
	}
	a.makeAnew()
	return initramfsPlace.allow(a.Assessment, facts)
}

// commandLine reads the entry that boots next. Where none is known it says nothing.
func (a *initramfsAssessor) commandLine() {
	boot, ok := node.Boot.Get(a.facts, "").Get()
	if !ok {
		return
	}
	if state, err := nextboot.Read(boot); err == nil && state.Pinned == "" {
		a.next = modprobe.FromCommandLine(state.Lines[state.Next].Args.Strings())
	}
}

// judge says of one module, for each block that wants something of it, whether the initramfs spoils it.
func (a *initramfsAssessor) judge(module string, contributions []plan.Contribution) {
	v := node.Initramfs.Get(a.facts, module)
	state, ok := v.Get()
	want := a.wanted(module, contributions, state)
	f := plan.Finding{
		ID: "initramfs.modprobe", Target: module, Effect: plan.Reboot, Source: v.Source(), Status: plan.OK,
		Want: want.Words(), Found: want.Words(), Summary: fmt.Sprintf("%s gives %s what modprobe.d does", state.Image, module),
	}
	bad, isBad := unreadable(state.Files)
	switch {
	case want.Words() == "":
		return // the command line decides, or what modprobe.d has is not as wanted
	case !ok:
		f = a.unread(module, v)
	case isBad:
		f = a.unread(module, node.Unknown[node.InitramfsState]("its "+bad.Source().Path+" "+bad.Reason(), v.Source()))
	case state.Image == "":
		f.Found, f.Summary = "no initramfs", fmt.Sprintf("kernel %s boots without an initramfs that could load %s", state.Kernel, module)
	case state.Module == "":
		f.Found, f.Summary = module+" not in it", fmt.Sprintf("%s does not hold %s, which the root loads", state.Image, module)
	default:
		if f.Found = want.Missing(state); f.Found != "" {
			a.stale(&f, want, state)
		} else {
			f.Found = f.Want
		}
	}
	for _, address := range addresses(contributions) {
		f.Address = address
		a.Findings = append(a.Findings, f)
	}
	if state.Module != "" {
		a.image, a.held = state, append(a.held, want)
	}
}

// unread is the finding that nobody knows what the initramfs gives a module. It is a warning: what the root
// gives it is judged for itself.
func (a *initramfsAssessor) unread(module string, v node.Value[node.InitramfsState]) plan.Finding {
	f := plan.Unread("initramfs.modprobe", "what the initramfs gives "+module, v)
	f.Target, f.Severity = module, plan.Warning
	if f.Fix == "" {
		f.Fix = fmt.Sprintf("see whether the initramfs holds %s (lsinitramfs, lsinitrd); if it does, make it anew once modprobe.d is as wanted", module)
	}
	return f
}

// stale: the initramfs holds the module, and gives it something else than the root.
func (a *initramfsAssessor) stale(f *plan.Finding, want plan.InitramfsModule, state node.InitramfsState) {
	f.Status, f.Feature = plan.Drift, "options"
	if want.Blacklisted {
		f.Feature = "boot"
	}
	f.Summary = fmt.Sprintf("%s holds %s and an older modprobe.d: %s; the next boot gets that, and not %s", state.Image, state.Module, f.Found, f.Want)
	f.Why = "what the initramfs loads is there before the root's modprobe.d is, and a reboot alone changes nothing"
	switch {
	case a.facts.Inventory.RootDirectory:
		f.Status, f.Tolerated = plan.Deferred, true
		f.Fix = "busbar makes it anew when this root has booted, and a reboot brings it; before, in this root: " + byHand(state)
	case state.Generator != node.GeneratorInitramfsTools || state.Image != "/boot/initrd.img-"+state.Kernel:
		f.Status = plan.Unsupported
		f.Fix = "when modprobe.d is as wanted, and before any reboot: " + byHand(state)
	case state.Frozen != node.Source{}:
		f.Status, f.Source = plan.Conflict, state.Frozen
		f.Summary += fmt.Sprintf("; %s keeps update-initramfs from changing it", state.Frozen)
		f.Fix = "set update_initramfs=yes there if its owner agrees, or when modprobe.d is as wanted: update-initramfs -c -k " + state.Kernel
	default:
		if lost := want.Missing(node.InitramfsState{Module: state.Module, Files: a.copied}); lost != "" {
			f.Fix = fmt.Sprintf("move the lines about %s into /etc/modprobe.d: mkinitramfs copies that and /lib/modprobe.d, and no other directory (%s)", want.Name, lost)
			return
		}
		f.Fixable, f.By = true, state.Image
	}
}

// byHand is the command that makes an image anew.
func byHand(state node.InitramfsState) string {
	switch {
	case state.Generator == node.GeneratorInitramfsTools:
		return "update-initramfs -u -k " + state.Kernel
	case state.Generator == node.GeneratorDracut && path.Base(state.Image) == "initramfs-"+state.Kernel+".img":
		return "dracut --force --kver " + state.Kernel
	case state.Generator == node.GeneratorDracut:
		return fmt.Sprintf("dracut --force %s %s", state.Image, state.Kernel)
	case state.Generator == node.GeneratorMkinitcpio:
		return "mkinitcpio -P"
	case state.Generator == node.GeneratorBooster:
		return fmt.Sprintf("booster build --force --kernel-version %s %s", state.Kernel, state.Image)
	default:
		return "make " + state.Image + " anew with the program that made it"
	}
}

// makeAnew adds the step for what is fixable.
func (a *initramfsAssessor) makeAnew() {
	var owners []string
	for _, f := range a.Findings {
		if f.Fixable {
			owners = append(owners, f.Address)
		}
	}
	if len(owners) == 0 {
		return
	}
	slices.Sort(owners)
	a.Steps = append(a.Steps, plan.Step{
		Addresses: slices.Compact(owners), Phase: plan.PhaseFiles, Target: a.image.Image, Effect: plan.Reboot,
		Summary:  fmt.Sprintf("run update-initramfs -u -k %s and read %s again", a.image.Kernel, a.image.Image),
		Requires: []string{ModprobeName},
		Action:   plan.UpdateInitramfs{Kernel: a.image.Kernel, Image: a.image.Image, Modules: a.held},
	})
}

// wanted is what the module must get in the initramfs: what the root will give it, where that is as contributed and the
// command line, which counts in both, says nothing of it.
func (a *initramfsAssessor) wanted(module string, contributions []plan.Contribution, state node.InitramfsState) plan.InitramfsModule {
	want := plan.InitramfsModule{Name: module, Options: map[string]string{}}
	onLine := modprobe.Config{Statements: a.next.Options}
	for _, c := range contributions {
		_, parameter := keyParts(c.Key)
		if parameter == "" {
			want.Blacklisted = len(a.root.Blacklisted(module)) > 0 && !a.keptOut(module, state.Generator)
			continue
		}
		inRoot, given := option(a.root, module, parameter)
		_, overridden := option(onLine, module, parameter)
		switch {
		case overridden:
		case given && inRoot.Value == OptionValue(module, parameter, c.Value):
			want.Options[parameter] = inRoot.Value
		case !given && c.Default:
			want.Absent = append(want.Absent, parameter)
		}
	}
	for _, o := range modprobeConfig(modprobeFile.only(state.Files)).Options(module) {
		if _, given := option(a.root, module, o.Key); !given && !slices.Contains(want.Absent, o.Key) {
			want.Absent = append(want.Absent, o.Key)
		}
	}
	slices.Sort(want.Absent)
	return want
}

// keptOut reports whether the next boot's command line keeps a module out of the initramfs: rd.driver.blacklist= is dracut's,
// the others are kmod's and the kernel's.
func (a *initramfsAssessor) keptOut(module, generator string) bool {
	return slices.Contains(a.next.Blacklist, module) || slices.Contains(a.next.Denied, module) ||
		generator != node.GeneratorInitramfsTools && slices.Contains(a.next.InitramfsBlacklist, module)
}
