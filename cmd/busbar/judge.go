package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/spf13/cobra"

	"busbar/apply"
	"busbar/checks"
	"busbar/modules"
	"busbar/node"
	"busbar/node/example"
	"busbar/node/live"
	"busbar/plan"
	"busbar/plan/sink"
	"busbar/profiles"
	"busbar/proofs"
	"busbar/report"
)

// nodeProfile is what is used when no profile is named.
const nodeProfile = "/etc/busbar/node.hcl"

// examplePrefix marks a built-in recording in --node.
const examplePrefix = "example:"

// profileDirs are searched before the profiles that come with busbar.
var profileDirs = []string{"/etc/busbar/profiles.d", "/etc/busbar/profiles", "/usr/share/busbar/profiles"}

func types() []plan.Type { return slices.Concat(modules.All(), checks.All(), proofs.All()) }

func newPlanner() *plan.Planner { return plan.NewPlanner(types(), sink.All()) }

// target is what the flags of plan, verify and apply say about node and profile.
type target struct {
	root        string
	nodes       []string
	assignments []string

	// For several nodes:
	loaded *chosen             // what was named
	all    []*profiles.Profile // or else those that there are
}

func (t *target) addFlags(cmd *cobra.Command, recordings bool) {
	t.addRoot(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&t.assignments, "var", nil, "set a profile's variable, `NAME=EXPR`")
	if recordings {
		t.addNodeFlag(cmd, "judge", ", and be a directory, a pattern or a tar archive of recordings")
	}
}

func (t *target) addRoot(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.root, "root", "/", "work on the system whose root file system lies in `DIR`, which does not run")
}

// addNodeFlag adds --node to a command that does something with a node.
func (t *target) addNodeFlag(cmd *cobra.Command, does, more string) {
	cmd.Flags().StringArrayVar(&t.nodes, "node", nil, does+" a recording, `FILE`, - for standard input, or "+examplePrefix+"NAME ("+strings.Join(example.Names(), ", ")+
		"), instead of this machine; may be repeated"+more)
	// The flag was declared just above.
	_ = cmd.RegisterFlagCompletionFunc("node", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, name := range example.Names() {
			names = append(names, examplePrefix+name)
		}
		return names, cobra.ShellCompDirectiveDefault
	})
}

// loader finds profiles for the node below t.root.
func (t *target) loader() *profiles.Loader {
	l := &profiles.Loader{Types: types(), Assignments: t.assignments}
	for _, dir := range profileDirs {
		dir = filepath.Join(t.root, dir)
		l.Dirs = append(l.Dirs, profiles.Dir{Path: dir, FS: profileDir{t, dir}})
	}
	l.Dirs = append(l.Dirs, profiles.Stock())
	return l
}

// profileDir is a directory of profiles of the node.
type profileDir struct {
	t   *target
	dir string
}

// Open opens a file or directory, and nothing that could hang.
func (d profileDir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	p := d.t.inside(filepath.Join(d.dir, name))
	info, err := os.Stat(p)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: p, Err: errors.New("is no regular file")}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(p)
}

// inside is where a file of the node can be opened: the links of a tree lead to files
// inside it.
func (t *target) inside(p string) string {
	rest, ok := strings.CutPrefix(p, t.root+"/")
	if !ok || t.root == "/" {
		return p
	}
	if resolved, err := securejoin.SecureJoin(t.root, rest); err == nil {
		return resolved
	}
	return p // opening it tells what is wrong
}

// nodeProfile is the node's own profile, and an error when there is none. A link that
// leads nowhere is one.
func (t *target) nodeProfile() (file string, err error) {
	file = filepath.Join(t.root, nodeProfile)
	_, err = os.Lstat(filepath.Join(t.inside(filepath.Dir(file)), filepath.Base(file)))
	return file, err
}

// reader reads the machine, or the tree below t.root, which is an absolute path without
// links from then on.
func (t *target) reader(c *console) (node.Reader, error) {
	if t.root == "" {
		return nil, &exit{plan.ExitUsage, errors.New("--root is empty")} // an unset variable in a script is not /
	}
	root, err := filepath.Abs(t.root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(root); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", root)
		}
	}
	if err != nil {
		return nil, &exit{plan.ExitError, fmt.Errorf("--root: %w", err)}
	}
	t.root = root
	if etc, err := os.Stat(t.inside(filepath.Join(root, "etc"))); root != "/" && (err != nil || !etc.IsDir()) {
		return nil, &exit{plan.ExitError, fmt.Errorf("--root: %s is no root file system: it has no directory etc", root)}
	}
	return live.New(live.Options{Root: root, Running: root == "/", SSHConnection: c.getenv("SSH_CONNECTION")}), nil
}

// nodeOf describes the node of a view.
func (t *target) nodeOf(facts node.Facts, recorded string) report.Node {
	n := report.NodeOf(facts, recorded)
	if recorded == "" && t.root != "/" {
		n.Root = t.root
	}
	return n
}

// openRecording opens what --node names.
func (c *console) openRecording(name string) (io.ReadCloser, error) {
	if builtIn, ok := strings.CutPrefix(name, examplePrefix); ok {
		return example.Open(builtIn)
	}
	if peeked, ok := c.peeked[name]; ok {
		delete(c.peeked, name)
		return peeked, nil
	}
	return c.openInput(name)
}

// recording reads what --node names.
func (c *console) recording(name string) (node.Reader, error) {
	r, err := c.openRecording(name)
	if err != nil {
		return nil, fmt.Errorf("reading the recording %s: %w", name, err)
	}
	defer r.Close()
	facts, err := node.ReadRecording(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return node.Recorded{Facts: facts}, nil
}

// chosen is a profile with how it came to be used.
type chosen struct {
	profile *profiles.Profile
	view    report.Profile
	source  []byte // of a profile that is a file
}

// files are those that decide what the profile says, those that come with busbar left out.
func (p chosen) files() []string {
	files := p.profile.Files()
	if p.view.File != "" && !handedOver(p.view.File) {
		files = append(files, p.view.File)
	}
	return files
}

// choose loads the profile that is named, or else the one that fits.
func (t *target) choose(c *console, args []string, inv node.Inventory, ofThisMachine bool) (chosen, error) {
	if t.loaded != nil {
		return *t.loaded, nil
	}
	l := t.loader()
	if len(args) > 0 {
		p, source, diags := t.named(c, l, args[0])
		if err := c.diagnose(diags); err != nil {
			return chosen{}, err
		}
		view := report.Profile{Name: p.Name, ChosenBy: report.Named}
		if isFile(args[0]) {
			view.File = args[0]
		}
		t.loaded = &chosen{p, view, source}
		return *t.loaded, nil
	}
	if ofThisMachine {
		if file, err := t.nodeProfile(); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t.choose(c, []string{file}, inv, false)
		}
	}
	return t.matching(c, l, inv)
}

// named loads a profile by its name, or from a file, whose text is source. A
// profile that judges nothing is none: an empty file must not pass for a node as wanted.
func (t *target) named(c *console, l *profiles.Loader, name string) (p *profiles.Profile, source []byte, diags profiles.Diagnostics) {
	mistake := func(summary, detail string) {
		p = nil
		diags = append(diags, profiles.Diagnostic{Severity: profiles.DiagnosticError, Summary: summary, Detail: detail})
	}
	if isFile(name) {
		var err error
		if source, err = c.readProfile(t.inside(name)); err != nil {
			mistake("The profile cannot be read", err.Error())
			return p, nil, diags
		}
		p, diags = l.LoadText(name, source)
	} else {
		p, diags = l.Load(name)
	}
	if p != nil && !diags.HasErrors() && len(p.StaticBlocks()) == 0 {
		mistake("The profile has no block", name+" holds no block that can apply, so that nothing would be judged.")
	}
	return p, source, diags
}

// isFile tells the name of a file from that of a profile.
func isFile(name string) bool {
	return name == "-" || strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".hcl")
}

// matching chooses among the profiles that say which nodes they are for.
func (t *target) matching(c *console, l *profiles.Loader, inv node.Inventory) (chosen, error) {
	if err := t.loadAll(c, l); err != nil {
		return chosen{}, err
	}
	return t.fitting(profiles.NodeOf(inv))
}

// loadAll loads the profiles that there are, once.
func (t *target) loadAll(c *console, l *profiles.Loader) error {
	if t.all != nil {
		return nil
	}
	var all []*profiles.Profile
	for _, name := range l.Names() {
		p, diags := l.Candidate(name)
		if err := c.diagnose(diags); err != nil {
			return err
		}
		all = append(all, p)
	}
	t.all = all
	return nil
}

// fitting chooses among the profiles that were loaded. It may be called concurrently.
func (t *target) fitting(n profiles.Node) (chosen, error) {
	name, err := profiles.ChooseForNode(t.all, n)
	if err != nil {
		return chosen{}, &exit{undecided(err), fmt.Errorf("%w; name the profile", err)}
	}
	view := report.Profile{Name: name, ChosenBy: report.Matched}
	if name == profiles.Baseline {
		view.ChosenBy = report.Default
	}
	i := slices.IndexFunc(t.all, func(p *profiles.Profile) bool { return p.Name == name })
	return chosen{profile: t.all[i], view: view}, nil
}

// prepare loads what recordings are judged against: the profile that is named, or all.
func (t *target) prepare(c *console, args []string) error {
	if len(args) == 0 {
		return t.loadAll(c, t.loader())
	}
	_, err := t.choose(c, args, node.Inventory{}, false)
	return err
}

// prepared is the profile for a node, after prepare. It may be called concurrently; an error is an *exit.
func (t *target) prepared(n profiles.Node) (chosen, error) {
	if t.loaded != nil {
		return *t.loaded, nil
	}
	return t.fitting(n)
}

// undecided is the exit code where no profile could be chosen: something about the node is not known, or else its
// owner has to say which of several is meant.
func undecided(err error) int {
	if choice, ok := errors.AsType[*profiles.ChoiceError](err); ok && len(choice.Undecided) > 0 {
		return plan.ExitUnknown
	}
	return plan.ExitUsage
}

// diagnose shows diagnostics, each once; the error ends a command whose profile is none.
func (c *console) diagnose(diags profiles.Diagnostics) error {
	fresh := slices.DeleteFunc(slices.Clone(diags), func(d profiles.Diagnostic) bool {
		return slices.ContainsFunc(c.diags, func(shown profiles.Diagnostic) bool { return reflect.DeepEqual(shown, d) })
	})
	if len(fresh) > 0 {
		c.diags = append(c.diags, fresh...)
		style := c.style(c.err)
		if err := profiles.WriteText(c.err, fresh, style.Width, style.Color); err != nil {
			return &exit{plan.ExitError, fmt.Errorf("writing diagnostics: %w", err)}
		}
	}
	if diags.HasErrors() {
		return &exit{code: plan.ExitBadProfile}
	}
	return nil
}

// judge evaluates a profile over an inventory, reads what its blocks ask for, and plans.
func judge(ctx context.Context, c *console, planner *plan.Planner, p *profiles.Profile, reader node.Reader, inv node.Inventory) (apply.Planned, error) {
	evaluation, diags := p.Evaluate(inv)
	if err := c.diagnose(diags); err != nil {
		return apply.Planned{}, err
	}
	facts := reader.Read(ctx, inv, planner.Queries(evaluation.Blocks, inv))
	return apply.Planned{Plan: planner.Plan(evaluation.Blocks, facts, evaluation.Findings...), Facts: facts}, nil
}

// writableByOthers refuses files that others than root can change, or replace by
// changing a directory or a link on the way to them.
func (t *target) writableByOthers(files []string) error {
	for _, file := range files {
		way, err := t.wayTo(file)
		if err != nil {
			return err
		}
		for _, step := range way {
			mode := step.info.Mode()
			owner, ok := step.info.Sys().(*syscall.Stat_t)
			open := mode.Perm()&0o022 != 0 && mode&fs.ModeSymlink == 0 && (!mode.IsDir() || mode&fs.ModeSticky == 0)
			if ok && owner.Uid != 0 || open {
				return fmt.Errorf("%s can be changed by others than root (%s), and decides what apply does as root: chown root and chmod go-w %s", step.path, mode, step.path)
			}
		}
	}
	return nil
}

// wayStep is a file, directory or link on the way to a file.
type wayStep struct {
	path string
	info fs.FileInfo
}

// maxLinks is how many links the kernel follows on one way (path_resolution(7)).
const maxLinks = 40

// wayTo is everything that is looked at to find a file, the file itself last. As for
// inside, the links of a tree do not lead out of it.
func (t *target) wayTo(file string) ([]wayStep, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	root := "/"
	if strings.HasPrefix(file, t.root+"/") {
		root = t.root
	}
	var way []wayStep
	at, rest, links := "/", strings.Split(file, "/"), 0
	for len(rest) > 0 {
		p := filepath.Join(at, rest[0]) // "" at the beginning is /
		if strings.HasPrefix(root, p+"/") && strings.HasPrefix(at, root) {
			p = root // .. in the root
		}
		info, err := os.Lstat(p)
		if err != nil {
			return nil, err
		}
		way = append(way, wayStep{p, info})
		if info.Mode()&fs.ModeSymlink == 0 {
			at, rest = p, rest[1:]
			continue
		}
		if links++; links > maxLinks {
			return nil, &fs.PathError{Op: "open", Path: file, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(p)
		if err != nil {
			return nil, err
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(strings.Split(target, "/"), rest[1:]...)
	}
	return way, nil
}
