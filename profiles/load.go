// Package profiles is the profile language: it loads profiles and the ones they
// extend, merges them, checks every reference without a node, and evaluates them over
// an inventory to blocks. It reads nothing but the file systems it is given.
//
// Profiles are HCL v2 in its native syntax (NAME.hcl); the JSON syntax is not read.
package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"busbar/plan"
)

//go:embed stock/*.hcl
var stock embed.FS

// Dir is a directory of profiles: NAME.hcl in it is profile NAME.
type Dir struct {
	// Path is how the directory is called in diagnostics.
	Path string
	FS   fs.FS
}

// stockPath is the Path of Stock.
const stockPath = "stock"

// Stock are the profiles that come with busbar.
func Stock() Dir {
	sub, err := fs.Sub(stock, stockPath)
	if err != nil {
		panic(err) // the path is a constant
	}
	return Dir{Path: stockPath, FS: sub}
}

// Loader finds and loads profiles. It reads each file once, and is not for concurrent use.
type Loader struct {
	// Types are the block types that profiles may have.
	Types []plan.Type
	// Dirs are searched in order; the first that has a name wins.
	Dirs []Dir
	// Assignments set variables (--var NAME=EXPR); they win over profiles.
	Assignments []string

	parsed map[string]parsedFile // by file name
}

// parsedFile is a file of the search path, read and parsed.
type parsedFile struct {
	src     []byte
	body    *hclsyntax.Body
	problem *hcl.Diagnostic
}

// Profile is a profile with all that it extends, checked without a node. It is
// immutable and may be evaluated concurrently.
type Profile struct {
	// Name as it was asked for.
	Name        string
	Description string

	parents   []string
	files     []string
	match     *argument
	values    map[string]cty.Value // of variables
	unset     []*variable          // that have no value
	locals    map[string]*argument
	selectors map[string]*selector
	blocks    []*block   // by address
	order     []*binding // locals and selectors, what others need first
	sources   map[string]sourceFile
	static    Evaluation
}

// Parents are the names of all profiles that p extends, directly or not, in the order
// of merging: later ones win.
func (p *Profile) Parents() []string { return slices.Clone(p.parents) }

// Files are the files outside the stock directory that p was read from, parents first:
// who can write one of them decides what apply does.
func (p *Profile) Files() []string { return slices.Clone(p.files) }

// Extends reports whether p extends the profile called name, directly or not.
func (p *Profile) Extends(name string) bool { return slices.Contains(p.parents, name) }

// Names lists the profiles in the search path, sorted.
func (l *Loader) Names() []string {
	names := map[string]bool{}
	for _, dir := range l.Dirs {
		// A directory that is absent or unreadable has no names to offer; loading a
		// name from it tells why.
		_ = fs.WalkDir(dir.FS, ".", func(p string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if name, ok := strings.CutSuffix(p, ".hcl"); ok && !entry.IsDir() {
				names[name] = true
			}
			return nil
		})
	}
	return sortedKeys(names)
}

// Load loads the profile called name from the search path. Without a Profile there is
// an error among the diagnostics.
func (l *Loader) Load(name string) (*Profile, Diagnostics) {
	g := l.newLoading()
	if filename, file, found := g.find(name, hcl.Range{}); found {
		g.add(name, filename, file)
	}
	return g.finish(name)
}

// LoadText loads a profile whose text is already there; filename is for diagnostics.
// Without a Profile there is an error among the diagnostics.
func (l *Loader) LoadText(filename string, src []byte) (*Profile, Diagnostics) {
	g := l.newLoading()
	g.add(filename, filename, parseFile(filename, src))
	return g.finish(filename)
}

// maxProfiles bounds how many profiles one profile can be made of.
const maxProfiles = 64

// loading is one profile being put together.
type loading struct {
	loader    *Loader
	types     typeTable
	report    *report
	documents []*document // in the order of merging
	seen      map[string]bool
	stack     []string
	files     []string
	// incomplete: a profile could not be read.
	incomplete bool
}

func (l *Loader) newLoading() *loading {
	return &loading{loader: l, types: newTypeTable(l.Types), report: newReport(), seen: map[string]bool{}}
}

func parseFile(filename string, src []byte) parsedFile {
	body, problem := parse(filename, src)
	return parsedFile{src, body, problem}
}

// find reads the file of the profile called name.
func (g *loading) find(name string, place hcl.Range) (filename string, file parsedFile, found bool) {
	fail := func(summary, detail string, args ...any) (string, parsedFile, bool) {
		g.incomplete = true
		g.report.errorf(place, "profile", summary, detail, args...)
		return "", parsedFile{}, false
	}
	if !fs.ValidPath(name) || name == "." {
		return fail("Not the name of a profile", "%q is no name that a profile can have.", name)
	}
	for _, dir := range g.loader.Dirs {
		filename = path.Join(dir.Path, name+".hcl")
		file, err := g.loader.read(dir, filename, name+".hcl")
		switch {
		case err == nil:
			if dir.Path != stockPath {
				g.files = append(g.files, filename)
			}
			return filename, file, true
		case !errors.Is(err, fs.ErrNotExist):
			return fail("Cannot read profile", "Reading %s: %v.", filename, err)
		}
	}
	return fail("No such profile", "There is no profile %q.%s", name, suggest(name, g.loader.Names()))
}

// read reads and parses a file of the search path, once.
func (l *Loader) read(dir Dir, filename, name string) (parsedFile, error) {
	if file, ok := l.parsed[filename]; ok {
		return file, nil
	}
	src, err := readFile(dir.FS, name)
	if err != nil {
		return parsedFile{}, err
	}
	if l.parsed == nil {
		l.parsed = map[string]parsedFile{}
	}
	l.parsed[filename] = parseFile(filename, src)
	return l.parsed[filename], nil
}

// readFile reads at most one byte more than a profile may have.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSource+1))
}

// add reads a profile and, before it, those that it extends.
func (g *loading) add(name, filename string, file parsedFile) {
	g.report.files[filename] = sourceFile{src: file.src, contexts: contextsOf(file.body)}
	if file.problem != nil {
		g.incomplete = true
		g.report.hcl(hcl.Diagnostics{file.problem}, "")
		return
	}
	doc := decodeDocument(g.report, g.types, name, filename, file.body)
	g.seen[name] = true
	g.stack = append(g.stack, name)
	if doc.header != nil {
		for _, parent := range doc.header.extends {
			g.parent(parent)
		}
	}
	g.stack = g.stack[:len(g.stack)-1]
	g.documents = append(g.documents, doc)
}

func (g *loading) parent(ref parentRef) {
	if i := slices.Index(g.stack, ref.name); i >= 0 {
		cycle := append(slices.Clone(g.stack[i:]), ref.name)
		g.incomplete = true
		g.report.errorf(ref.place, "profile", "Profiles extend each other", "%s.", strings.Join(cycle, " extends "))
		return
	}
	if g.seen[ref.name] {
		return
	}
	if len(g.seen) >= maxProfiles {
		g.incomplete = true
		g.report.errorf(ref.place, "profile", "Too many profiles", "A profile is made of at most %d.", maxProfiles)
		return
	}
	if filename, file, found := g.find(ref.name, ref.place); found {
		g.add(ref.name, filename, file)
	}
}

func contextsOf(body *hclsyntax.Body) []blockContext {
	if body == nil {
		return nil
	}
	contexts := make([]blockContext, 0, len(body.Blocks))
	for _, b := range body.Blocks {
		header := b.Type
		for _, label := range b.Labels {
			header += fmt.Sprintf(" %q", label)
		}
		contexts = append(contexts, blockContext{b.Range().Start.Byte, b.Range().End.Byte, header})
	}
	return contexts
}

// finish merges and checks what was read. With a file missing or unreadable, whatever
// refers to it would look wrong: then only what stands in the files alone is told.
func (g *loading) finish(name string) (*Profile, Diagnostics) {
	if g.incomplete {
		return nil, g.report.diagnostics()
	}
	p := &Profile{Name: name, files: g.files, sources: g.report.files}
	last := len(g.documents) - 1
	for _, doc := range g.documents[:last] {
		p.parents = append(p.parents, doc.name)
	}
	if own := g.documents[last]; own.header != nil {
		p.Description, p.match = own.header.description, own.header.match
	}
	m := newMerger(g.report, p)
	for _, doc := range g.documents {
		m.add(doc)
	}
	m.finish()
	check(g.report, p, m.variables)
	m.assign(g.documents, g.loader.Assignments)
	p.meter()
	p.static = newEvaluation(p, g.report, nil).run()
	diags := g.report.diagnostics()
	if diags.HasErrors() {
		return nil, diags
	}
	return p, diags
}

// meter makes every expression that is evaluated over a node charge its cost.
func (p *Profile) meter() {
	charge := func(a *argument) {
		if a != nil && !a.invalid {
			a.expr = meterWhole(a.expr)
		}
	}
	charge(p.match)
	for _, a := range p.locals {
		charge(a)
	}
	for _, s := range p.selectors {
		charge(s.nics)
		charge(s.expect)
	}
	for _, b := range p.blocks {
		for name, layers := range b.arguments {
			if name == "depends_on" {
				continue
			}
			attribute, isAttribute := b.attribute(name)
			for _, a := range layers {
				if object, ok := a.expr.(*hclsyntax.ObjectConsExpr); ok && isAttribute && keyed(attribute.Type) {
					meterItems(object)
				} else {
					charge(a)
				}
			}
		}
		if b.waive != nil {
			charge(b.waive.reason)
			charge(b.waive.until)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
