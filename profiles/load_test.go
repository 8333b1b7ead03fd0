package profiles_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
	"busbar/plan"
	"busbar/profiles"
)

func TestLoad(t *testing.T) {
	etc := fstest.MapFS{
		"own.hcl":      {Data: []byte(`profile { extends = ["base/b", "plain"] }`)},
		"base/a.hcl":   {Data: []byte(`profile { description = "mine" }` + "\nlocals {}\n")},
		"directory":    {Mode: fs.ModeDir},
		"x.hcl/y.hcl":  {Data: []byte(``)},
		"README.md":    {Data: []byte(``)},
		"oversize.hcl": {Data: bytes.Repeat([]byte("#\n"), 5<<20)},
	}
	usr := fstest.MapFS{
		"base/a.hcl": {Data: []byte(`profile { description = "theirs" }`)},
		"base/b.hcl": {Data: []byte(`profile { extends = ["base/a"] }`)},
		"plain.hcl":  {Data: []byte(`nccl {}`)},
	}
	l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{{Path: "/etc/p", FS: dangling{etc}}, {Path: "/usr/p", FS: usr}}}
	p, diags := l.Load("own")
	if p == nil {
		t.Fatal(text(t, diags, 0, false))
	}
	if diff := cmp.Diff([]string{"base/a", "base/b", "plain"}, p.Parents()); diff != "" {
		t.Errorf("Parents: %s", diff)
	}
	if diff := cmp.Diff([]string{"/etc/p/own.hcl", "/usr/p/base/b.hcl", "/etc/p/base/a.hcl", "/usr/p/plain.hcl"}, p.Files()); diff != "" {
		t.Errorf("Files: %s", diff)
	}
	if !p.Extends("base/a") || p.Extends("own") {
		t.Error("Extends is wrong")
	}
	if a, _ := l.Load("base/a"); a.Description != "mine" {
		t.Errorf("Description = %q, want the first directory's", a.Description)
	}
	names := l.Names()
	for _, want := range []string{"own", "base/a", "base/b", "plain", "x.hcl/y"} {
		if strings.Count(strings.Join(names, " ")+" ", want+" ") != 1 {
			t.Errorf("Names = %v, want %s once", names, want)
		}
	}
	for name, want := range map[string]string{
		"onw":          `There is no profile "onw". Did you mean "own"? The command busbar profiles lists them.`,
		"plain.hcl":    `There is no profile "plain.hcl". Did you mean "plain"?`,
		"./own.hcl":    `"./own.hcl" is a path where a name is wanted. Profile NAME is the file NAME.hcl in /etc/p, /usr/p. Did you mean "own"?`,
		"":             `"" is a path where a name is wanted.`,
		"oversize":     "The text has 1048577 bytes; a profile has at most 1048576.",
		"x":            "Reading /etc/p/x.hcl",
		"own\x00":      "There is no profile",
		"\xff":         "is a path where",
		"leads/away":   "/etc/p/leads/away.hcl is a link that leads nowhere.",
		"base/a.hcl/b": "There is no profile",
	} {
		p, diags := l.Load(name)
		if p != nil || len(diags) != 1 || !strings.Contains(diags[0].Detail, want) {
			t.Errorf("Load(%q) = %v, want %q", name, diags, want)
		}
	}
}

// dangling is a file system in which leads/away.hcl is a link to nothing.
type dangling struct{ fstest.MapFS }

func (d dangling) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "leads" {
		return []fs.DirEntry{fs.FileInfoToDirEntry(link{})}, nil
	}
	return d.MapFS.ReadDir(name)
}

type link struct{ fs.FileInfo }

func (link) Name() string      { return "away.hcl" }
func (link) Mode() fs.FileMode { return fs.ModeSymlink }

// A site profile called as one of the stock does not come between that and its children.
func TestStockParents(t *testing.T) {
	stock := profiles.Dir{Path: profiles.Stock().Path, FS: fstest.MapFS{
		"baseline.hcl": {Data: []byte("variable \"v\" {\n  default = \"stock\"\n}\nnccl {\n  version = var.v\n}\n")},
		"bare.hcl":     {Data: []byte("profile {\n  extends = [\"baseline\"]\n  variables = { v = \"bare\" }\n}\n")},
	}}
	site := profiles.Dir{Path: "/etc/p", FS: fstest.MapFS{
		"baseline.hcl": {Data: []byte("nccl {\n  settings = { A = 1 }\n}\n")},
		"own.hcl":      {Data: []byte("profile {\n  extends = [\"bare\", \"baseline\"]\n}\n")},
		"bare2.hcl":    {Data: []byte("profile {\n  extends = [\"bare\"]\n}\n")},
	}}
	l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{site, stock}}
	for name, want := range map[string]string{
		"baseline": "nccl /etc/p/baseline.hcl:1\n  settings.A = 1 (/etc/p/baseline.hcl:2)\n",
		"bare":     "nccl stock/baseline.hcl:4\n  version = \"bare\" (stock/baseline.hcl:5)\n",
		"bare2":    "nccl stock/baseline.hcl:4\n  version = \"bare\" (stock/baseline.hcl:5)\n",
		"own":      "nccl stock/baseline.hcl:4\n  settings.A = 1 (/etc/p/baseline.hcl:2)\n  version = \"bare\" (stock/baseline.hcl:5)\n",
	} {
		p, diags := l.Load(name)
		if p == nil {
			t.Errorf("%s: %s", name, text(t, diags, 0, false))
			continue
		}
		if diff := cmp.Diff(want, show(mustEvaluate(t, p, hgx()).Blocks)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	p, _ := l.Load("own")
	if diff := cmp.Diff([]string{"/etc/p/own.hcl", "/etc/p/baseline.hcl"}, p.Files()); diff != "" {
		t.Error(diff)
	}
}

// TestCandidate: a stock profile that is not evaluated is not put together; its mistakes are told by its evaluation. One that a site
// has a file of is checked at once.
func TestCandidate(t *testing.T) {
	const wrong = "variable \"v\" {\n  type    = number\n  default = \"many\"\n}\nnccl {}\n"
	files := fstest.MapFS{
		"good.hcl":   {Data: []byte("profile {\n  match = node.arch == \"x86_64\"\n}\nnccl {\n  version = \"1\"\n}\n")},
		"wrong.hcl":  {Data: []byte(wrong)},
		"syntax.hcl": {Data: []byte("nccl {")},
		"child.hcl":  {Data: []byte("profile {\n  extends = [\"wrong\"]\n}\n")},
	}
	load := func(path string, assignments ...string) func(name string) (*profiles.Profile, *profiles.Profile, profiles.Diagnostics, profiles.Diagnostics) {
		return func(name string) (*profiles.Profile, *profiles.Profile, profiles.Diagnostics, profiles.Diagnostics) {
			l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{{Path: path, FS: files}}, Assignments: assignments}
			candidate, early := l.Candidate(name)
			p, diags := l.Load(name)
			return candidate, p, early, diags
		}
	}
	stock := profiles.Stock().Path
	candidate, p, early, _ := load(stock)("good")
	if candidate == nil || p == nil || len(early) > 0 {
		t.Fatalf("good: %v", early)
	}
	if matched, reason := candidate.Match(hgx()); !matched {
		t.Errorf("good does not match: %s", reason)
	}
	if diff := cmp.Diff(show(mustEvaluate(t, p, hgx()).Blocks), show(mustEvaluate(t, candidate, hgx()).Blocks)); diff != "" {
		t.Errorf("a candidate has other blocks: %s", diff)
	}
	for _, name := range []string{"wrong", "child"} {
		candidate, p, early, diags := load(stock)(name)
		if candidate == nil || p != nil || len(early) > 0 || !diags.HasErrors() {
			t.Errorf("%s of the stock: %v %v, early %v, diagnostics %v", name, candidate, p, early, diags)
			continue
		}
		out, late := candidate.Evaluate(hgx())
		if diff := cmp.Diff(diags, late); diff != "" || out.Blocks != nil {
			t.Errorf("%s of the stock, evaluated: %s", name, diff)
		}
	}
	for what, each := range map[string]func(string) (*profiles.Profile, *profiles.Profile, profiles.Diagnostics, profiles.Diagnostics){
		"of a site": load("/etc/p"), "of the stock with an assignment": load(stock, "v=\"few\""),
	} {
		candidate, p, early, diags := each("wrong")
		if candidate != nil || p != nil || !early.HasErrors() {
			t.Errorf("wrong %s: %v, %v", what, candidate, early)
		}
		if diff := cmp.Diff(diags, early); diff != "" {
			t.Errorf("wrong %s: %s", what, diff)
		}
	}
	for _, name := range []string{"syntax", "none"} {
		if candidate, _, early, _ := load(stock)(name); candidate != nil || !early.HasErrors() {
			t.Errorf("%s: %v, %v", name, candidate, early)
		}
	}
}

// What one load does to a file does not show in the next.
func TestLoadTwice(t *testing.T) {
	dir := fstest.MapFS{
		"base.hcl": {Data: []byte("locals {\n  a = \"x\"\n  b = upper(local.a)\n}\nnccl {\n  version = lower(local.b)\n}\n")},
		"own.hcl":  {Data: []byte("profile {\n  extends = [\"base\"]\n}\n")},
	}
	l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{{Path: "p", FS: dir}}}
	for _, name := range []string{"base", "own", "base"} {
		p, diags := l.Load(name)
		if p == nil {
			t.Fatalf("%s: %s", name, text(t, diags, 0, false))
		}
		if got := show(mustEvaluate(t, p, hgx()).Blocks); !strings.Contains(got, `version = "x"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestStock(t *testing.T) {
	l := profiles.Loader{Dirs: []profiles.Dir{profiles.Stock()}}
	if names := l.Names(); !slices.Contains(names, profiles.Baseline) {
		t.Errorf("Names = %v, want %s among them", names, profiles.Baseline)
	}
	for _, name := range l.Names() {
		src, err := fs.ReadFile(profiles.Stock().FS, name+".hcl")
		if err != nil {
			t.Fatal(err)
		}
		if got, diags := profiles.Format(name, src); diags.HasErrors() || !bytes.Equal(got, src) {
			t.Errorf("%s.hcl is not in its normal layout: %v", name, diags)
		}
	}
}

func TestLoadEmpty(t *testing.T) {
	for _, src := range []string{"", "# nothing\n", "profile {\n  description = \"x\"\n}\n", "profile {\n  extends = [\"empty\"]\n}\n"} {
		dir := fstest.MapFS{"empty.hcl": {}}
		l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{{Path: "p", FS: dir}}}
		p, diags := l.LoadText("/etc/busbar/node.hcl", []byte(src))
		if p != nil || len(diags) != 1 || diags[0].Summary != "The profile has no block" || diags[0].Range.Filename != "/etc/busbar/node.hcl" {
			t.Errorf("%q: %v", src, diags)
		}
	}
	for _, src := range []string{"profile {\n  extends = [\"bare\"]\n}\n", "locals {}\n", "nccl {\n  when = false\n}\n"} {
		if p, diags := load(src); p == nil {
			t.Errorf("%q: %v", src, diags)
		}
	}
}

func TestMatch(t *testing.T) {
	virtual := hgx()
	virtual.Virtualization = node.Known("kvm", node.Source{})
	unread := hgx()
	unread.DMI = node.Unknown[node.DMI]("access denied", node.Source{})
	const infiniband = `anytrue([for n in node.nics : n.link_layer == "InfiniBand"])`
	tests := []struct {
		name, match string
		inventory   node.Inventory
		want        bool
		reason      string
	}{
		{"id", `contains(node.pci_ids, "10de:2330") && !node.virtual`, hgx(), true, ""},
		{"virtual", `contains(node.pci_ids, "10de:2330") && !node.virtual`, virtual, false, ""},
		{"link layer", infiniband, hgx(), true, ""},
		{"splat", `contains(node.nics[*].link_layer, "InfiniBand")`, hgx(), true, ""},
		{"dmi", `node.dmi.sys_vendor == "Supermicro"`, hgx(), true, ""},
		{"dmi unread", `node.dmi.sys_vendor == "Supermicro"`, unread, false, "access denied"},
		{"one side decides", `node.dmi.sys_vendor == "Supermicro" && node.virtual`, unread, false, ""},
		{"nothing known", infiniband, node.Inventory{}, false, "not recorded"},
		{"failing", `node.pci_ids[99] == "x"`, hgx(), false, "match of profile test.hcl: Invalid index: The given key does not identify an element in this collection value."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, reason := mustLoad(t, "locals {}\nprofile {\n  match = "+test.match+"\n}").Match(test.inventory)
			if got != test.want || reason != test.reason {
				t.Errorf("got %t, %q, want %t, %q", got, reason, test.want, test.reason)
			}
		})
	}
	if got, reason := mustLoad(t, "locals {}").Match(hgx()); got || reason != "" {
		t.Errorf("without match: got %t, %q", got, reason)
	}
}

func TestChoose(t *testing.T) {
	dir := fstest.MapFS{
		"hgx":    {Data: []byte(`profile { match = node.nvswitch }`)},
		"ib":     {Data: []byte("profile {\n  extends = [\"hgx\"]\n  match = contains(node.nics[*].link_layer, \"InfiniBand\")\n}")},
		"arm":    {Data: []byte(`profile { match = node.arch == "aarch64" }`)},
		"vendor": {Data: []byte(`profile { match = node.dmi.sys_vendor == "Supermicro" }`)},
		"none":   {Data: []byte(``)},
	}
	files := fstest.MapFS{}
	for name, file := range dir {
		file.Data = append(file.Data, "\nlocals {}\n"...)
		files[name+".hcl"] = file
	}
	l := profiles.Loader{Types: fakeTypes(), Dirs: []profiles.Dir{{Path: "p", FS: files}}}
	unread := hgx()
	unread.DMI = node.Unknown[node.DMI]("access denied", node.Source{})
	tests := []struct {
		names, want, err string
		inventory        node.Inventory
	}{
		{"none arm", "baseline", "", hgx()},
		{"none arm hgx", "hgx", "", hgx()},
		{"hgx ib arm", "ib", "", hgx()},
		{"ib hgx", "ib", "", hgx()},
		{"vendor ib hgx", "", "profiles hgx, ib, vendor match this node and none extends the others", hgx()},
		{"vendor ib hgx", "", "profiles hgx, ib match this node and none extends the others; whether profile vendor matches this node is unknown: access denied", unread},
		{"vendor none", "", "whether profile vendor matches this node is unknown: access denied", unread},
	}
	for _, test := range tests {
		t.Run(test.names, func(t *testing.T) {
			var loaded []*profiles.Profile
			for name := range strings.FieldsSeq(test.names) {
				p, diags := l.Load(name)
				if p == nil {
					t.Fatal(text(t, diags, 0, false))
				}
				loaded = append(loaded, p)
			}
			got, err := profiles.Choose(loaded, test.inventory)
			message := ""
			if err != nil {
				message = err.Error()
				if _, ok := errors.AsType[*profiles.ChoiceError](err); !ok {
					t.Errorf("error is a %T", err)
				}
			}
			if got != test.want || message != test.err {
				t.Errorf("got %q, %q", got, message)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"layout", "nccl {\nsettings={\nA=1\nLONG = 2\n}\n\n}", "nccl {\n  settings = {\n    A    = 1\n    LONG = 2\n  }\n\n}\n"},
		{"line breaks and mark", "\xef\xbb\xbfa {\r\n  b = 1\r\n}\r\n\r\n", "a {\n  b = 1\n}\n"},
		{"comments", "# x\na { # y\n}\n// z", "# x\na { # y\n}\n// z\n"},
		{"nothing", " \n\n", ""},
		{"heredoc", "a {\nb = <<-X\n    c\n  X\n}\n", "a {\n  b = <<-X\n    c\n  X\n}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, diags := profiles.Format("x.hcl", []byte(test.src))
			if diff := cmp.Diff(test.want, string(got)); diff != "" || len(diags) > 0 {
				t.Errorf("%v\n%s", diags, diff)
			}
			again, _ := profiles.Format("x.hcl", got)
			if !bytes.Equal(got, again) {
				t.Errorf("formatting again gives %q", again)
			}
		})
	}
	got, diags := profiles.Format("x.hcl", []byte("a {\n b = \n}"))
	if got != nil || len(diags) != 1 || diags[0].Range.Start.Line != 2 {
		t.Errorf("invalid text: %q, %v", got, diags)
	}
}

func TestHostile(t *testing.T) {
	const n = 40_000 / scale
	deep := func(open, middle, shut string) string {
		return "locals {\n  a = " + strings.Repeat(open, n) + middle + strings.Repeat(shut, n) + "\n}\n"
	}
	tests := map[string]string{
		"parentheses":      deep("(", "1", ")"),
		"lists":            deep("[", "", "]"),
		"objects":          deep("{a=", "1", "}"),
		"open lists":       deep("[", "", ""),
		"calls":            deep("abs(", "1", ")"),
		"templates":        deep(`"${`, "1", `}"`),
		"directives":       "locals {\n  a = \"" + strings.Repeat("%{if true}", n) + "\"\n}\n",
		"not":              deep("!", "true", ""),
		"minus":            deep("-", "1", ""),
		"sums":             deep("1+", "1", ""),
		"conditionals":     deep("true ? 1 : ", "1", ""),
		"indices":          deep("", "node", "[0]"),
		"splats":           deep("", "node.nics", "[*]"),
		"attribute splat":  deep("", "node.nics", ".*"),
		"attributes":       deep("", "node", ".a"),
		"loops":            deep("[for x in node.nics : ", "x", "]"),
		"blocks":           strings.Repeat("a {\n", n),
		"types":            "variable \"x\" {\n  type = " + strings.Repeat("list(", n) + "any" + strings.Repeat(")", n) + "\n}\n",
		"large":            strings.Repeat("# comment\n", 1<<20),
		"junk":             strings.Repeat("}{\"${", n),
		"mark":             "\xef\xbb\xbf\xef\xbb\xbf",
		"laughs":           laughs(40, `"${local.a%[2]d}${local.a%[2]d}"`),
		"list laughs":      laughs(60, `[local.a%[2]d, local.a%[2]d]`),
		"number laughs":    strings.Replace(laughs(60, `local.a%[2]d * local.a%[2]d`), `"xxxxxxxx"`, "1e99", 1) + "sysctl \"a\" {\n  value = \"${local.a60}\"\n}\n",
		"laughs elsewhere": laughs(40, `"${local.a%[2]d}${local.a%[2]d}"`) + "sysctl \"a\" {\n  value = local.a40\n}\nsysctl \"b\" {\n  value = 1\n  severity = \"warn\"\n  optional = [\"value\"]\n}\n",
		"many blocks":      "kernel_module \"a\" {\n  for_each = { for x in range(1000) : x => range(1000) }\n  options = { for k, v in each.value : k => \"x\" }\n}\n",
		"repeated verbs":   "locals {\n  a = format(\"" + strings.Repeat("%[1]s", 500) + "\", \"" + strings.Repeat("x", 10000) + "\")\n}\n",
	}
	wantSummary := map[string]string{
		"large": "Profile too large", "many blocks": "Too much to compute", "laughs": "Too much to compute",
		"list laughs": "Too much to compute", "laughs elsewhere": "Too much to compute", "number laughs": "Too much to compute", "repeated verbs": "Too much to compute",
	}
	for _, name := range []string{
		"parentheses", "lists", "objects", "open lists", "calls", "templates", "directives", "not", "minus", "sums",
		"conditionals", "splats", "attribute splat", "loops", "blocks", "types",
	} {
		wantSummary[name] = "Nested too deeply"
	}
	for name, src := range tests {
		t.Run(name, func(t *testing.T) {
			p, diags := load(src)
			if name != "mark" && (p != nil || !diags.HasErrors()) {
				t.Error("accepted")
			}
			if want := wantSummary[name]; want != "" && diags[0].Summary != want {
				t.Errorf("got %q, want %q", diags[0].Summary, want)
			}
			for _, d := range diags {
				if d.Summary == "Unknown" {
					t.Errorf("what is written is unknown: %s", d.Detail)
				}
			}
			if len(diags) > 0 && len(diags[0].Snippet.Code) > 400 {
				t.Errorf("snippet of %d bytes", len(diags[0].Snippet.Code))
			}
			if _, err := fmt.Fprint(&bytes.Buffer{}, text(t, diags, 80, false)); err != nil {
				t.Fatal(err)
			}
			profiles.Format("x.hcl", []byte(src))
		})
	}
}

// laughs are locals each made of the one before, and one attribute that needs the last.
func laughs(n int, template string) string {
	var b strings.Builder
	b.WriteString("locals {\n  a0 = \"xxxxxxxx\"\n")
	for i := range n {
		fmt.Fprintf(&b, "  a%d = "+template+"\n", i+1, i)
	}
	b.WriteString("}\n")
	return b.String()
}

// TestSchema holds values of node against the published schema.
func TestSchema(t *testing.T) {
	for _, inv := range []node.Inventory{{}, hgx()} {
		p := mustLoad(t, "locals {\n  all = [node.arch, node.os, node.kernel, node.dmi, node.virtual, node.virtualization, node.pci_ids, node.nvswitch, node.gpus, node.nics]\n}\n")
		mustEvaluate(t, p, inv)
	}
	seen := map[string]bool{}
	for _, a := range profiles.NodeAttributes() {
		if a.Doc == "" || seen[a.Path] {
			t.Errorf("%s: no text, or there twice", a.Path)
		}
		seen[a.Path] = true
	}
}

func TestFunctionsArePure(t *testing.T) {
	for _, name := range profiles.Functions() {
		for _, impure := range []string{"file", "env", "time", "uuid", "date", "rand"} {
			if strings.HasPrefix(name, impure) {
				t.Errorf("%s is not a function of its arguments", name)
			}
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("profile {\n  extends = [\"baseline\"]\n  match = node.virtual\n  variables = { a = 1 }\n}\n")
	f.Add("variable \"a\" {\n  type = object({ b = optional(number, 1) })\n  default = {}\n  validation {\n    condition = var.a.b > 0\n    error_message = \"x\"\n  }\n}\n")
	f.Add("selector \"rails\" {\n  nics = [for n in node.nics : n if !n.protected]\n  expect = 2\n}\nnccl {\n  settings = { A = join(\",\", selector.rails[*].rdma), (node.arch) = 1 }\n}\n")
	f.Add("kernel_module \"a\" {\n  for_each = toset(node.nics[*].netdev)\n  when = node.nvswitch\n  depends_on = [check.gpus.all, nccl]\n  options = merge({ a = each.key }, { b = try(each.value, null) })\n  waive {\n    reason = \"x\"\n    until = \"2026-01-01\"\n  }\n}\ncheck \"gpus\" \"all\" {\n  count = length(node.gpus)\n}\n")
	f.Add("locals {\n  a = \"%{for n in node.nics}${n.rdma}%{endfor}%{if node.virtual}x%{else}y%{endif}\"\n  b = <<-X\n    ${local.a}\n  X\n  c = node.nics.*.rdma\n  d = { for k, v in { x = 1 } : k => v... }\n}\n")
	f.Add("roce \"a\" {\n  nics = node.nics\n  lossless = { priority = node.gpus[1].numa, dscp = 26 }\n  mtu = cond ? 1 : null\n}\n")
	f.Fuzz(func(t *testing.T, src string) {
		p, diags := load(src)
		if p == nil && !diags.HasErrors() {
			t.Fatal("neither a profile nor an error")
		}
		text(t, diags, 60, true)
		if p == nil {
			return
		}
		for _, inv := range []node.Inventory{{}, hgx()} {
			e, diags := p.Evaluate(inv)
			text(t, diags, 0, false)
			if diags.HasErrors() {
				continue
			}
			conforms(t, e.Blocks)
			p.Match(inv)
		}
	})
}

// conforms holds blocks against the tables of their types.
func conforms(t *testing.T, blocks []plan.Block) {
	specs := map[string]plan.Spec{}
	for _, typ := range fakeTypes() {
		specs[typ.Spec().Name] = typ.Spec()
	}
	for _, b := range blocks {
		if b.Undecided != "" {
			continue
		}
		for _, a := range specs[b.Type].Attributes {
			v := b.Attributes[a.Name]
			if !v.IsWhollyKnown() || v.ContainsMarked() {
				t.Errorf("%s.%s = %#v", b.Address, a.Name, v)
			}
			if want := a.Type.WithoutOptionalAttributesDeep(); !a.Type.HasDynamicTypes() && !v.Type().Equals(want) {
				t.Errorf("%s.%s is %#v, want %#v", b.Address, a.Name, v.Type(), want)
			}
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add("nccl {\nsettings={\nA=1\n}\n}")
	f.Add("\xef\xbb\xbfa {\r\n b = <<X\r\nc\r\nX\r\n}\r\n")
	f.Add("a = [1,\n2, # x\n{b:1}]\n/* y */ c { d=\"${e}\" }")
	f.Fuzz(func(t *testing.T, src string) {
		once, diags := profiles.Format("x.hcl", []byte(src))
		if diags.HasErrors() {
			return
		}
		twice, diags := profiles.Format("x.hcl", once)
		if diags.HasErrors() {
			t.Fatalf("formatted text is invalid: %v\n%q", diags, once)
		}
		if !bytes.Equal(once, twice) {
			t.Fatalf("not idempotent: %q gives %q, then %q", src, once, twice)
		}
	})
}

// fortyBlocks is a profile of 40 blocks.
func fortyBlocks() string {
	var src strings.Builder
	src.WriteString("selector \"rails\" {\n  nics = [for n in node.nics : n if n.link_layer == \"InfiniBand\"]\n  expect = 2\n}\nnccl {\n  settings = { A = join(\",\", selector.rails[*].rdma) }\n}\n")
	for i := range 39 {
		fmt.Fprintf(&src, "kernel_module \"m%d\" {\n  state = \"loaded\"\n  options = { a = node.arch, b = \"%d\" }\n  when = !node.virtual\n}\n", i, i)
	}
	return src.String()
}

func BenchmarkLoadAndEvaluate40(b *testing.B) {
	src, inv := fortyBlocks(), hgx()
	b.ReportAllocs()
	for b.Loop() {
		p, diags := load(src)
		if p == nil {
			b.Fatal(diags)
		}
		p.Evaluate(inv)
	}
}

func BenchmarkEvaluate40(b *testing.B) {
	p, diags := load(fortyBlocks())
	if p == nil {
		b.Fatal(diags)
	}
	inv := hgx()
	b.ReportAllocs()
	for b.Loop() {
		p.Evaluate(inv)
	}
}
