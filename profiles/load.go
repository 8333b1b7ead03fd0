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
	"sync"

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

// Loader finds and loads profiles. It reads and parses each file once, for all profiles that it is part of: its fields are not to
// be changed after the first use. It is not for concurrent use.
type Loader struct {
	// Types are the block types that profiles may have.
	Types []plan.Type
	// Dirs are searched in order; the first that has a name wins. What a stock profile
	// extends is searched in the stock alone: its parent is the one that it was written for.
	Dirs []Dir
	// Assignments set variables (--var NAME=EXPR); they win over profiles.
	Assignments []string

	types   typeTable
	sources map[string]*source // by file name
}

// Profile is a profile with all that it extends, checked without a node. It is
// immutable and may be evaluated concurrently.
type Profile struct {
	// Name as it was asked for.
	Name        string
	Description string

	parents []string
	files   []string
	match   *argument
	sources map[string]sourceFile
	// whole puts the profile together and checks it, once.
	whole func() *whole
}

// whole is what a profile and those that it extends make together.
type whole struct {
	match     *argument            // the profile's own
	values    map[string]cty.Value // of variables
	unset     []*variable          // that have no value
	locals    map[string]*argument
	selectors map[string]*selector
	blocks    []*block               // by address
	order     []*binding             // locals and selectors, what others need first
	sets      map[*argument][]string // plan.Withheld.Sets of the lists that arguments compute
	static    Evaluation
	diags     Diagnostics
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
func (l *Loader) Load(name string) (*Profile, Diagnostics) { return l.search(name).finish(name) }

// Candidate is Load for one of many profiles of which one will be evaluated. What is made of profiles that come with busbar alone
// is read here, and put together and checked by the first evaluation, which has the errors then.
func (l *Loader) Candidate(name string) (*Profile, Diagnostics) {
	g := l.search(name)
	if len(g.files) > 0 || len(l.Assignments) > 0 || g.incomplete || g.report.count > 0 {
		return g.finish(name)
	}
	return g.profile(name), nil
}

// search reads the profile called name.
func (l *Loader) search(name string) *loading {
	g := l.newLoading()
	if found, ok := g.find(name, hcl.Range{}, false); ok {
		g.add(found)
	}
	return g
}

// Source is the text of a profile, and how its file is called in findings and diagnostics. It is found by its name, as Load finds
// it, or by that file (stock/baseline.hcl). Diagnostics say why there is none.
func (l *Loader) Source(name string) (filename string, text []byte, diags Diagnostics) {
	for _, dir := range l.Dirs {
		if inside, ok := strings.CutPrefix(name, dir.Path+"/"); ok {
			name = strings.TrimSuffix(inside, ".hcl")
			only := Loader{Types: l.Types, Dirs: []Dir{dir}}
			l = &only
			break
		}
	}
	g := l.newLoading()
	found, ok := g.find(name, hcl.Range{}, false)
	if !ok {
		return "", nil, g.report.diagnostics()
	}
	return found.filename, found.src, nil
}

// LoadText loads a profile whose text is already there; filename is for diagnostics.
// Without a Profile there is an error among the diagnostics.
func (l *Loader) LoadText(filename string, src []byte) (*Profile, Diagnostics) {
	g := l.newLoading()
	g.add(newSource(filename, filename, src))
	return g.finish(filename)
}

// maxProfiles bounds how many profiles one profile can be made of.
const maxProfiles = 64

// loading is one profile being put together.
type loading struct {
	loader    *Loader
	report    *report
	documents []*document     // in the order of merging
	seen      map[string]bool // by file name
	stack     []*source
	files     []string
	// bytes and declared are how much text, blocks and locals the files have.
	bytes, declared int
	// incomplete: a profile could not be read.
	incomplete bool
}

func (l *Loader) newLoading() *loading {
	if l.sources == nil {
		l.types, l.sources = newTypeTable(l.Types), map[string]*source{}
	}
	return &loading{loader: l, report: newReport(), seen: map[string]bool{}}
}

// source is the text of a profile, parsed.
type source struct {
	sourceFile
	name, filename string
	// searched: it was found in the search path, and stock in the profiles that come with busbar.
	searched, stock bool
	// body is nil where there is a problem.
	body    *hclsyntax.Body
	problem *hcl.Diagnostic
	// document is what body says, once a profile found no mistake in it.
	document *document
}

func newSource(name, filename string, src []byte) *source {
	s := &source{name: name, filename: filename}
	s.src = src
	s.body, s.problem = parse(filename, src)
	s.contexts = contextsOf(s.body)
	return s
}

// find reads the file of the profile called name, which a stock profile extends if byStock.
func (g *loading) find(name string, place hcl.Range, byStock bool) (found *source, ok bool) {
	fail := func(summary, detail string, args ...any) (*source, bool) {
		g.incomplete = true
		g.report.errorf(place, "profile", summary, detail, args...)
		return nil, false
	}
	if !fs.ValidPath(name) || name == "." {
		return fail("Not the name of a profile", "%q is a path where a name is wanted. %s%s", name, g.loader.where(), g.similar(path.Base(name)))
	}
	for _, dir := range g.loader.Dirs {
		if byStock && !dir.stock() {
			continue
		}
		filename := path.Join(dir.Path, name+".hcl")
		found, err := g.loader.read(dir, name, filename)
		switch {
		case err == nil:
			return found, true
		case !errors.Is(err, fs.ErrNotExist):
			return fail("Cannot read profile", "Reading %s: %v.", filename, err)
		case dir.lists(name + ".hcl"):
			return fail("Cannot read profile", "%s is a link that leads nowhere.", filename)
		}
	}
	return fail("No such profile", "There is no profile %q.%s The command busbar profiles lists them.", name, g.similar(name))
}

func (d Dir) stock() bool { return d.Path == stockPath }

// lists reports whether the directory has an entry for a file, be it a link.
func (d Dir) lists(file string) bool {
	entries, _ := fs.ReadDir(d.FS, path.Dir(file)) // absent or unreadable: no entries
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(file) })
}

// where says which file a profile's name stands for.
func (l *Loader) where() string {
	var places []string
	for _, dir := range l.Dirs {
		if dir.stock() {
			places = append(places, "the profiles that come with busbar")
		} else {
			places = append(places, dir.Path)
		}
	}
	return fmt.Sprintf("Profile NAME is the file NAME.hcl in %s.", strings.Join(places, ", "))
}

// similar suggests a profile.
func (g *loading) similar(name string) string {
	return g.report.suggest(strings.TrimSuffix(name, ".hcl"), slices.Values(g.loader.Names()))
}

// read reads the file of a profile in the search path, once.
func (l *Loader) read(dir Dir, name, filename string) (*source, error) {
	if s, ok := l.sources[filename]; ok {
		return s, nil
	}
	src, err := readFile(dir.FS, name+".hcl")
	if err != nil {
		return nil, err
	}
	s := newSource(name, filename, src)
	s.searched, s.stock = true, dir.stock()
	l.sources[filename] = s
	return s, nil
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

// add adds a profile behind those that it extends.
func (g *loading) add(s *source) {
	if s.searched && !s.stock {
		g.files = append(g.files, s.filename)
	}
	g.report.files[s.filename] = s.sourceFile
	if s.problem != nil {
		g.incomplete = true
		g.report.hcl(hcl.Diagnostics{s.problem}, "")
		return
	}
	if !g.bounded(s) {
		g.incomplete = true
		return
	}
	doc := g.decode(s)
	g.seen[s.filename] = true
	g.stack = append(g.stack, s)
	if doc.header != nil {
		for i, parent := range doc.header.extends {
			if i >= maxProfiles {
				g.tooMany(parent)
				break
			}
			g.parent(parent, s.stock)
		}
	}
	g.stack = g.stack[:len(g.stack)-1]
	g.documents = append(g.documents, doc)
}

// decode is the document of a source. One with mistakes is decoded for each profile anew: each tells of them.
func (g *loading) decode(s *source) *document {
	if s.document != nil {
		return s.document
	}
	before := g.report.count
	doc := decodeDocument(g.report, g.loader.types, s.name, s.filename, s.body)
	if g.report.count == before {
		s.document = doc
	}
	return doc
}

// bounded reports whether a profile is still of a size to be worked on.
func (g *loading) bounded(s *source) bool {
	if g.bytes += len(s.src); g.bytes > maxSource {
		g.report.errorf(hcl.Range{Filename: s.filename, Start: hcl.InitialPos, End: hcl.InitialPos}, "", "Profile too large",
			"The text and what it extends have more than %d bytes.", maxSource)
		return false
	}
	for _, b := range s.body.Blocks {
		g.declared++
		if b.Type == "locals" {
			g.declared += len(b.Body.Attributes)
		}
		if g.declared > maxDeclared {
			g.report.errorf(b.DefRange(), "", "Too many blocks", "A profile and what it extends have at most %d blocks and locals.", maxDeclared)
			return false
		}
	}
	return true
}

func (g *loading) parent(ref parentRef, byStock bool) {
	if len(g.seen) >= maxProfiles {
		g.tooMany(ref)
		return
	}
	found, ok := g.find(ref.name, ref.place, byStock)
	if !ok {
		return
	}
	if i := slices.IndexFunc(g.stack, func(s *source) bool { return s.filename == found.filename }); i >= 0 {
		var cycle []string
		for _, s := range append(g.stack[i:len(g.stack):len(g.stack)], found) {
			cycle = append(cycle, s.name)
		}
		g.incomplete = true
		g.report.errorf(ref.place, "profile", "Profiles extend each other", "%s.", strings.Join(cycle, " extends "))
		return
	}
	if !g.seen[found.filename] {
		g.add(found)
	}
}

func (g *loading) tooMany(ref parentRef) {
	g.incomplete = true
	g.report.errorf(ref.place, "profile", "Too many profiles", "A profile is made of at most %d.", maxProfiles)
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
		contexts = append(contexts, blockContext{b.Range().Start.Byte, b.Range().End.Byte, clip(header)})
	}
	return contexts
}

// finish is the profile that was read, whole. With a file missing or unreadable, whatever
// refers to it would look wrong: then only what stands in the files alone is told.
func (g *loading) finish(name string) (*Profile, Diagnostics) {
	if g.incomplete {
		return nil, g.report.diagnostics()
	}
	p := g.profile(name)
	diags := p.whole().diags
	if diags.HasErrors() {
		return nil, diags
	}
	return p, diags
}

// profile is what was read.
func (g *loading) profile(name string) *Profile {
	p := &Profile{Name: name, files: g.files, sources: g.report.files}
	last := len(g.documents) - 1
	for _, doc := range g.documents[:last] {
		p.parents = append(p.parents, doc.name)
	}
	if own := g.documents[last]; own.header != nil {
		p.Description, p.match = own.header.description, own.header.match
	}
	p.whole = sync.OnceValue(func() *whole { return g.merge(p.match) })
	return p
}

// merge merges and checks what was read.
func (g *loading) merge(match *argument) *whole {
	w := &whole{match: match}
	m := newMerger(g.report, w)
	for _, doc := range g.documents {
		m.add(doc)
	}
	m.finish()
	check(g.report, w, m.variables)
	m.assign(g.documents, g.loader.Assignments)
	w.nameSets(g.report)
	w.static = newEvaluation(w, g.report, nil).run()
	if g.report.count == 0 && !slices.ContainsFunc(g.documents, func(d *document) bool { return d.declares }) {
		g.report.errorf(hcl.Range{Filename: g.documents[len(g.documents)-1].filename, Start: hcl.InitialPos, End: hcl.InitialPos}, "", "The profile has no block",
			"Neither it nor a profile that it extends has a block: there is nothing to judge.")
	}
	w.diags = g.report.diagnostics()
	return w
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
