package grub

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds on foreign text. A defaults file has a few kilobytes, a kernel command
// line at most four (COMMAND_LINE_SIZE).
const (
	maxFile   = 256 << 10 // bytes of one file
	maxValue  = 64 << 10  // bytes of one value
	maxWork   = 16 << 20  // bytes expanded and sourced, and nodes visited, in all
	maxSource = 16        // files sourcing each other

	sourceCost = 4 << 10 // work of sourcing an empty file
	nearCost   = 1 << 10 // work of looking for a name's nearest key
)

// variable is a shell variable; its value is not known if reason is set.
type variable struct {
	value  value
	reason string
	file   string // of the last assignment
	line   int
}

// status is the outcome of a command.
type status int

const (
	unknown status = iota
	success
	failure
)

func statusOf(ok bool) status {
	if ok {
		return success
	}
	return failure
}

func (s status) not() status {
	switch s {
	case success:
		return failure
	case failure:
		return success
	}
	return unknown
}

// environment names what grub-mkconfig has set before it reads the defaults, or
// inherits.
var environment = map[string]bool{
	"HOME": true, "PATH": true, "PWD": true, "OLDPWD": true, "SHELL": true, "TERM": true, "USER": true,
	"LOGNAME": true, "LANG": true, "LANGUAGE": true, "LC_ALL": true, "LC_MESSAGES": true, "IFS": true,
	"PPID": true, "HOSTNAME": true, "TMPDIR": true,
	"prefix": true, "exec_prefix": true, "datarootdir": true, "datadir": true, "bindir": true, "sbindir": true,
	"sysconfdir": true, "pkgdatadir": true, "localedir": true, "self": true, "grub_cfg": true,
	"grub_mkconfig_dir": true, "grub_probe": true, "grub_script_check": true, "package_version": true,
	"host_os": true, "GRUB_DEVICE": true, "GRUB_DEVICE_UUID": true, "GRUB_DEVICE_PARTUUID": true,
	"GRUB_DEVICE_BOOT": true, "GRUB_DEVICE_BOOT_UUID": true, "GRUB_FS": true, "GRUB_PREFIX": true,
}

// special holds the built-in commands after which "NAME=value command" leaves
// the variable set (POSIX, 2.14).
var special = map[string]bool{
	":": true, ".": true, "break": true, "continue": true, "eval": true, "exec": true, "exit": true,
	"export": true, "readonly": true, "return": true, "set": true, "shift": true, "trap": true, "unset": true,
}

// interp walks the syntax tree of the defaults.
type interp struct {
	lookup Lookup
	d      Defaults
	funcs  map[string]*syntax.FuncDecl
	asked  map[string]bool // paths in d.Sourced
	work   int

	src   *source
	depth int
	stop  bool   // a return ended this file
	doubt string // why it is not known whether the rest of this file is read
}

func newInterp(lookup Lookup) *interp {
	return &interp{
		lookup: lookup,
		d:      Defaults{vars: map[string]variable{}},
		funcs:  map[string]*syntax.FuncDecl{},
		asked:  map[string]bool{},
	}
}

// parse reads a file as POSIX shell. Bytes outside ASCII mean nothing to the
// shell but need not be UTF-8: the tree is built over a copy of the same length
// without them, and text is taken from the original by offset.
func parse(path, text string) (*syntax.File, error) {
	fail := func(line int, format string, args ...any) error {
		return &SyntaxError{File: path, Line: line, Msg: fmt.Sprintf(format, args...)}
	}
	if len(text) > maxFile {
		return nil, fail(1, "%d bytes are too many for a defaults file, %d are read at most", len(text), maxFile)
	}
	if strings.HasPrefix(text, "\ufeff") {
		return nil, fail(1, "begins with a byte order mark, which the shell takes for part of the first word")
	}
	for line, l := range strings.Split(text, "\n") {
		if strings.Contains(l, "\r") {
			return nil, fail(line+1, "carriage return: the shell keeps it in the value (lines end in CR LF?)")
		}
		if strings.Contains(l, "\x00") {
			return nil, fail(line+1, "NUL byte")
		}
	}
	ascii := []byte(text)
	for i, c := range ascii {
		if c >= 0x80 {
			ascii[i] = '%'
		}
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX), syntax.KeepComments(true)).Parse(strings.NewReader(string(ascii)), path)
	var parseErr syntax.ParseError
	var langErr syntax.LangError
	switch {
	case errors.As(err, &parseErr):
		return nil, fail(int(parseErr.Pos.Line()), "the shell cannot read it: %s", parseErr.Text)
	case errors.As(err, &langErr):
		return nil, fail(int(langErr.Pos.Line()), "the shell cannot read it: not in sh: %s", langErr.Feature)
	case err != nil:
		return nil, fail(1, "the shell cannot read it: %v", err)
	}
	// Within case the parser takes "a"#b for a word and a comment, and anywhere () for zsh's
	// function without a name.
	syntax.Walk(f, func(n syntax.Node) bool {
		if decl, ok := n.(*syntax.FuncDecl); ok && decl.Name == nil && err == nil {
			err = fail(int(decl.Pos().Line()), "the shell cannot read it: a function without a name")
		}
		if c, ok := n.(*syntax.Comment); ok && err == nil {
			if at := int(c.Pos().Offset()); at > 0 && !strings.ContainsRune(" \t\n;&|()", rune(text[at-1])) {
				err = fail(int(c.Pos().Line()), "# right after a quote or an expansion is read as part of the word by sh only; put a blank or quotes around it")
			}
		}
		return true
	})
	return f, err
}

// file evaluates one file, on its own or sourced by another.
func (i *interp) file(path, text string) error {
	if i.d.dead != "" {
		return nil
	}
	f, err := parse(path, text)
	if err != nil {
		return err
	}
	if line := endless(f); line > 0 {
		i.die(fmt.Sprintf("%s:%d: a loop may never end, and update-grub with it", path, line))
		return nil
	}
	outer := *i
	i.src, i.depth, i.stop = newSource(path, text), outer.depth+1, false
	_, err = i.run(f.Stmts)
	i.src, i.depth, i.stop, i.doubt = outer.src, outer.depth, outer.stop, outer.doubt
	return err
}

// endless is the line of the first while or until loop, also in a function, a subshell or a
// substitution; 0 when there is none.
func endless(f *syntax.File) (line int) {
	syntax.Walk(f, func(n syntax.Node) bool {
		if loop, ok := n.(*syntax.WhileClause); ok && line == 0 {
			line = int(loop.Pos().Line())
		}
		return line == 0
	})
	return line
}

func (i *interp) at(n syntax.Node) string {
	return fmt.Sprintf("%s:%d", i.src.path, i.src.line(int(n.Pos().Offset())))
}

// poison makes everything unknown that is not assigned anew.
func (i *interp) poison(reason string) {
	i.charge(len(i.d.vars))
	for name, v := range i.d.vars {
		if v.reason == "" {
			v.reason, v.value = reason, nil
			i.d.vars[name] = v
		}
	}
	i.d.unset = reason
}

// die makes everything unknown for good.
func (i *interp) die(reason string) {
	if i.d.dead == "" {
		i.d.dead = reason
	}
}

// charge counts work and gives up on files that multiply themselves.
func (i *interp) charge(n int) {
	if i.work += n; i.work > maxWork {
		i.die(fmt.Sprintf("the defaults expand to more than %d bytes", maxWork))
	}
}

// run evaluates statements in order and returns the status of the last.
func (i *interp) run(list []*syntax.Stmt) (status, error) {
	last := success
	for _, s := range list {
		if i.d.dead != "" || i.stop {
			return unknown, nil
		}
		var err error
		if last, err = i.stmt(s); err != nil {
			return unknown, err
		}
	}
	return last, nil
}

func (i *interp) stmt(s *syntax.Stmt) (status, error) {
	if s.Background || s.Coprocess {
		return unknown, nil
	}
	st, err := i.command(s.Cmd)
	if s.Negated {
		st = st.not()
	}
	return st, err
}

func (i *interp) command(cmd syntax.Command) (status, error) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return i.call(c)
	case *syntax.Block:
		return i.run(c.Stmts)
	case *syntax.IfClause:
		return i.ifClause(c)
	case *syntax.CaseClause:
		return i.caseClause(c)
	case *syntax.BinaryCmd:
		return i.binary(c)
	case *syntax.FuncDecl:
		i.funcs[c.Name.Value] = c
		return success, nil
	case nil, *syntax.Subshell: // a subshell changes nothing outside
		return unknown, nil
	default:
		i.uncertain(c, i.at(c)+": loops are not evaluated")
		return unknown, nil
	}
}

func (i *interp) ifClause(c *syntax.IfClause) (status, error) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // else
			return i.run(c.Then)
		}
		st, err := i.run(c.Cond)
		if err != nil || i.d.dead != "" || i.stop {
			return unknown, err
		}
		switch st {
		case success:
			return i.run(c.Then)
		case unknown:
			reason := i.at(c) + ": the outcome of the condition is not known"
			for _, s := range c.Then {
				i.uncertain(s, reason)
			}
			if c.Else != nil {
				i.uncertain(c.Else, reason)
			}
			return unknown, nil
		}
	}
	return success, nil
}

func (i *interp) binary(c *syntax.BinaryCmd) (status, error) {
	if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt { // a pipe runs in subshells
		return unknown, nil
	}
	left, err := i.stmt(c.X)
	if err != nil || i.d.dead != "" || i.stop {
		return unknown, err
	}
	switch {
	case left == unknown:
		i.uncertain(c.Y, i.at(c.X)+": the outcome of the command is not known")
		return unknown, nil
	case (left == success) == (c.Op == syntax.AndStmt):
		return i.stmt(c.Y)
	}
	return left, nil
}

func (i *interp) caseClause(c *syntax.CaseClause) (status, error) {
	word, reason := i.expand(c.Word, false)
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			expr, patternReason := i.pattern(p)
			if reason == "" {
				reason = patternReason
			}
			if reason != "" {
				i.uncertain(c, reason)
				return unknown, nil
			}
			if i.charge(len(expr.String()) * word.size()); i.d.dead != "" {
				return unknown, nil
			}
			if !expr.MatchString(word.String()) {
				continue
			}
			return i.run(item.Stmts)
		}
	}
	return success, nil
}

// pattern turns a case pattern into an expression; quoted text matches itself.
func (i *interp) pattern(w *syntax.Word) (*regexp.Regexp, string) {
	var b strings.Builder
	for _, part := range w.Parts {
		v, reason := i.parts([]syntax.WordPart{part}, unquoted)
		if reason != "" {
			return nil, reason
		}
		_, plain := part.(*syntax.Lit)
		for _, p := range v {
			if plain && !p.escaped {
				b.WriteString(p.text)
			} else {
				b.WriteString(pattern.QuoteMeta(p.text, 0))
			}
		}
	}
	expr, err := pattern.Regexp(b.String(), pattern.EntireString)
	if err != nil {
		return nil, fmt.Sprintf("%s: case pattern: %v", i.at(w), err)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Sprintf("%s: case pattern: %v", i.at(w), err)
	}
	return re, ""
}

// call evaluates a simple command.
func (i *interp) call(c *syntax.CallExpr) (status, error) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			i.assign(a, a.Name.Value, a.Append, assignedParts(a))
		}
		return success, nil
	}
	if name, appended, rest, ok := i.assignmentWord(c.Args[0]); ok && appended {
		i.lint(c, Bashism, "%s+= is not known to sh, the shell of grub-mkconfig on Debian: it looks for a command of that name and stops; write %s=\"$%s ...\"", name, name, name)
		i.assign(c.Args[0], name, true, rest)
		return success, nil
	}
	name, reason := i.field(c.Args[0])
	if reason != "" {
		i.poison(fmt.Sprintf("%s: which command is run is not known (%s)", i.at(c), reason))
		return unknown, nil
	}
	if special[name] {
		for _, a := range c.Assigns {
			i.assign(a, a.Name.Value, a.Append, assignedParts(a))
		}
	}
	args := c.Args[1:]
	switch name {
	case ":", "true", "echo", "printf":
		for _, w := range args {
			i.expand(w, false) // may hold ${NAME:=value}
		}
		return success, nil
	case "false":
		return failure, nil
	case "set", "shift", "trap", "umask":
		return success, nil
	case "[", "test":
		return i.test(name, args), nil
	case ".", "source":
		return i.source(c, name, args)
	case "export", "readonly", "local":
		for _, w := range args {
			if name, appended, rest, ok := i.assignmentWord(w); ok {
				i.assign(w, name, appended, rest)
			}
		}
		return success, nil
	case "unset":
		for _, w := range args {
			if name, reason := i.field(w); reason != "" {
				i.poison(reason)
			} else {
				i.unset(name)
			}
		}
		return success, nil
	case "return":
		i.stop = true
		return unknown, nil
	case "exit", "exec":
		i.die(fmt.Sprintf("%s: %s ends grub-mkconfig", i.at(c), name))
		return unknown, nil
	}
	if f := i.funcs[name]; f != nil {
		i.uncertain(f.Body, fmt.Sprintf("%s: functions (%s) are not evaluated", i.at(c), name))
		return unknown, nil
	}
	if len(c.Assigns) > 0 {
		i.commandAfterAssignment(c, name)
	}
	i.uncertain(c, fmt.Sprintf("%s: %s is not run", i.at(c), name))
	return unknown, nil
}

// commandAfterAssignment is NAME=value word: the shell runs the word with NAME
// in its environment, and NAME stays as it was. Nearly always quotes are missing.
func (i *interp) commandAfterAssignment(c *syntax.CallExpr, command string) {
	for _, a := range c.Assigns {
		i.lint(a, CommandAfterValue, "%s is not set: without quotes the shell runs %q as a command", a.Name.Value, command)
		i.unresolve(a.Name.Value, fmt.Sprintf("%s: without quotes the shell runs %q as a command", i.at(a), command))
	}
}

// assignmentWord takes NAME=value or NAME+=value apart, as they stand among a
// command's arguments in this file.
func (i *interp) assignmentWord(w *syntax.Word) (name string, appended bool, rest []syntax.WordPart, ok bool) {
	name, appended, ok = assignedName(w)
	if !ok {
		return "", false, nil, false
	}
	value := *w.Parts[0].(*syntax.Lit)
	_, value.Value, _ = strings.Cut(value.Value, "=")
	skip := strings.IndexByte(i.src.text[value.Pos().Offset():], '=') + 1
	value.ValuePos = syntax.NewPos(value.Pos().Offset()+uint(skip), value.Pos().Line(), 0)
	return name, appended, append([]syntax.WordPart{&value}, w.Parts[1:]...), true
}

// assignedName returns NAME of a word that begins NAME= or NAME+=.
func assignedName(w *syntax.Word) (name string, appended, ok bool) {
	lit, isLit := w.Parts[0].(*syntax.Lit)
	if !isLit {
		return "", false, false
	}
	name, _, ok = strings.Cut(lit.Value, "=")
	name, appended = strings.CutSuffix(name, "+")
	return name, appended, ok && syntax.ValidName(name)
}

func assignedParts(a *syntax.Assign) []syntax.WordPart {
	if a.Value == nil {
		return nil
	}
	return a.Value.Parts
}

// assign sets a variable and records it.
func (i *interp) assign(n syntax.Node, name string, appended bool, parts []syntax.WordPart) {
	line := i.src.line(int(n.Pos().Offset()))
	v, reason := i.parts(parts, unquoted)
	if lit, ok := firstLit(parts); ok && strings.HasPrefix(lit, "~") && reason == "" {
		reason = i.at(n) + ": ~ stands for a home directory"
	}
	old := i.get(name)
	if appended && reason == "" {
		v, reason = slices.Concat(old.value, v), old.reason
	}
	if reason == "" && v.size() > maxValue {
		reason = fmt.Sprintf("%s: the value is longer than %d bytes", i.at(n), maxValue)
	}
	if reason == "" {
		reason = i.doubt
	}
	i.charge(v.size())
	if reason != "" {
		i.d.Assignments = append(i.d.Assignments, Assignment{File: i.src.path, Line: line, Name: name, Append: appended, Reason: reason})
		i.d.vars[name] = variable{reason: reason, file: i.src.path, line: line}
		return
	}
	i.assignmentLints(n, name, old, v)
	i.d.Assignments = append(i.d.Assignments, Assignment{File: i.src.path, Line: line, Name: name, Value: v.String(), Append: appended})
	i.d.vars[name] = variable{value: v, file: i.src.path, line: line}
}

func firstLit(parts []syntax.WordPart) (string, bool) {
	if len(parts) == 0 {
		return "", false
	}
	lit, ok := parts[0].(*syntax.Lit)
	if !ok {
		return "", false
	}
	return lit.Value, true
}

// unresolve makes a variable's value unknown.
func (i *interp) unresolve(name, reason string) {
	v := i.d.vars[name]
	v.value, v.reason = nil, reason
	i.d.vars[name] = v
}

func (i *interp) unset(name string) {
	switch {
	case i.doubt != "":
		i.unresolve(name, i.doubt)
	case i.d.unset != "" || environment[name]:
		i.d.vars[name] = variable{}
	default:
		delete(i.d.vars, name)
	}
}

func (i *interp) get(name string) variable {
	v, set := i.d.vars[name]
	switch {
	case set:
	case i.d.unset != "":
		v.reason = i.d.unset
	case environment[name]:
		v.reason = fmt.Sprintf("$%s comes from grub-mkconfig or its environment", name)
	}
	return v
}

// uncertain makes unknown what a command that may or may not run could change.
func (i *interp) uncertain(n syntax.Node, reason string) {
	names, wild, ends := i.effects(n, map[*syntax.FuncDecl]bool{})
	for name := range maps.Keys(names) {
		i.unresolve(name, reason)
	}
	if wild {
		i.poison(reason)
	}
	switch ends {
	case "":
	case "return":
		if i.doubt == "" {
			i.doubt = reason
		}
	default:
		i.die(reason)
	}
}

// effects collects the variables that running n could assign, whether it could
// assign any variable at all, and the command by which it could end the file
// ("return") or grub-mkconfig ("exit", "exec").
func (i *interp) effects(n syntax.Node, seen map[*syntax.FuncDecl]bool) (names map[string]bool, wild bool, ends string) {
	names = map[string]bool{}
	var visit func(syntax.Node) bool
	visit = func(n syntax.Node) bool {
		if i.charge(1); i.d.dead != "" {
			return false
		}
		switch c := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst:
			return false
		case *syntax.BinaryCmd:
			return c.Op == syntax.AndStmt || c.Op == syntax.OrStmt
		case *syntax.Stmt:
			return !c.Background
		case *syntax.FuncDecl:
			i.funcs[c.Name.Value] = c
			return false
		case *syntax.WordIter:
			names[c.Name.Value] = true
		case *syntax.ParamExp:
			if c.Exp != nil && c.Param != nil && (c.Exp.Op == syntax.AssignUnset || c.Exp.Op == syntax.AssignUnsetOrNull) {
				names[c.Param.Value] = true
			}
		case *syntax.CallExpr:
			if len(c.Args) == 0 || special[c.Args[0].Lit()] {
				for _, a := range c.Assigns {
					names[a.Name.Value] = true
				}
			}
			if len(c.Args) == 0 {
				return true
			}
			if name, appended, ok := assignedName(c.Args[0]); ok && appended {
				names[name] = true
			}
			switch name := c.Args[0].Lit(); name {
			case "", ".", "source", "eval", "command", "builtin", "alias":
				wild = wild || !isQuery(c)
			case "export", "readonly", "local":
				for _, w := range c.Args[1:] {
					if name, _, ok := assignedName(w); ok {
						names[name] = true
					}
				}
			case "unset", "read", "getopts":
				for _, w := range c.Args[1:] {
					names[w.Lit()] = true
				}
			case "return", "exit", "exec":
				if ends == "" || ends == "return" {
					ends = name
				}
			default:
				if f := i.funcs[name]; f != nil && !seen[f] {
					seen[f] = true
					syntax.Walk(f.Body, visit)
				}
			}
		}
		return true
	}
	syntax.Walk(n, visit)
	return names, wild, ends
}

// isQuery is true of "command -v NAME", which only asks.
func isQuery(c *syntax.CallExpr) bool {
	return c.Args[0].Lit() == "command" && len(c.Args) > 1 && strings.EqualFold(c.Args[1].Lit(), "-v")
}

// source evaluates ". PATH" over what the caller knows of PATH.
func (i *interp) source(c *syntax.CallExpr, command string, args []*syntax.Word) (status, error) {
	if command == "source" {
		i.lint(c, Bashism, "source is not known to sh, the shell of grub-mkconfig on Debian; write a dot")
	}
	if len(args) == 0 {
		i.die(i.at(c) + ": " + command + " without a file")
		return unknown, nil
	}
	name, reason := i.field(args[0])
	switch {
	case reason != "":
		i.poison(fmt.Sprintf("%s: which file is sourced is not known (%s)", i.at(c), reason))
		return unknown, nil
	case !strings.HasPrefix(name, "/"):
		i.poison(fmt.Sprintf("%s: sources %q, which is not an absolute path", i.at(c), name))
		return unknown, nil
	case i.depth >= maxSource:
		i.die(fmt.Sprintf("%s: files source each other more than %d deep", i.at(c), maxSource))
		return unknown, nil
	}
	text, found := i.find(name)
	if !found {
		i.die(fmt.Sprintf("%s: sources %s, which is not there, and the shell stops", i.at(c), name))
		return unknown, nil
	}
	i.charge(len(text) + sourceCost)
	return success, i.file(name, text)
}

func (i *interp) find(name string) (string, bool) {
	if !i.asked[name] {
		i.asked[name] = true
		i.d.Sourced = append(i.d.Sourced, name)
	}
	if i.lookup == nil {
		return "", false
	}
	return i.lookup(name)
}

// test evaluates [ ... ] with up to three operands.
func (i *interp) test(command string, words []*syntax.Word) status {
	var args []string
	for _, w := range words {
		s, reason := i.field(w)
		if reason != "" {
			return unknown
		}
		args = append(args, s)
	}
	if command == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			return unknown
		}
		args = args[:len(args)-1]
	}
	if len(args) > 1 && args[0] == "!" {
		return i.evalTest(args[1:]).not()
	}
	return i.evalTest(args)
}

func (i *interp) evalTest(args []string) status {
	switch len(args) {
	case 0:
		return failure
	case 1:
		return statusOf(args[0] != "")
	case 2:
		return i.unary(args[0], args[1])
	case 3:
		return compare(args[0], args[1], args[2])
	}
	return unknown
}

func (i *interp) unary(op, arg string) status {
	switch op {
	case "-n":
		return statusOf(arg != "")
	case "-z":
		return statusOf(arg == "")
	}
	if !strings.HasPrefix(arg, "/") {
		return unknown
	}
	switch op {
	case "-f", "-r":
		_, found := i.find(arg)
		return statusOf(found)
	case "-s":
		text, found := i.find(arg)
		return statusOf(found && text != "")
	case "-d":
		_, found := i.find(strings.TrimRight(arg, "/") + "/")
		return statusOf(found)
	case "-e":
		if _, found := i.find(arg); found {
			return success
		}
		_, found := i.find(strings.TrimRight(arg, "/") + "/")
		return statusOf(found)
	}
	return unknown
}

func compare(a, op, b string) status {
	switch op {
	case "=", "==":
		return statusOf(a == b)
	case "!=":
		return statusOf(a != b)
	}
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX != nil || errY != nil {
		return unknown
	}
	switch op {
	case "-eq":
		return statusOf(x == y)
	case "-ne":
		return statusOf(x != y)
	case "-lt":
		return statusOf(x < y)
	case "-le":
		return statusOf(x <= y)
	case "-gt":
		return statusOf(x > y)
	case "-ge":
		return statusOf(x >= y)
	}
	return unknown
}

// field expands a command's word that must stay one word.
func (i *interp) field(w *syntax.Word) (text, reason string) {
	v, reason := i.expand(w, true)
	return v.String(), reason
}

// expand expands a word. With oneField set, an unquoted expansion that the
// shell would split, drop or match against files is unknown.
func (i *interp) expand(w *syntax.Word, oneField bool) (value, string) {
	if oneField {
		for _, part := range w.Parts {
			if _, ok := part.(*syntax.ParamExp); !ok {
				continue
			}
			v, reason := i.parts([]syntax.WordPart{part}, unquoted)
			if s := v.String(); reason == "" && (s == "" || strings.ContainsAny(s, " \t\n*?[")) {
				return nil, i.at(w) + ": an expansion without quotes is split into words"
			}
		}
	}
	return i.parts(w.Parts, unquoted)
}

// parts expands the parts of a word. reason says why the result is not known.
func (i *interp) parts(parts []syntax.WordPart, q quoting) (v value, reason string) {
	for _, part := range parts {
		var more value
		switch p := part.(type) {
		case *syntax.Lit:
			more = decode(i.src, int(p.Pos().Offset()), int(p.End().Offset()), q)
		case *syntax.SglQuoted:
			more = decode(i.src, int(p.Left.Offset())+1, int(p.Right.Offset()), single)
		case *syntax.DblQuoted:
			more, reason = i.parts(p.Parts, double)
		case *syntax.ParamExp:
			more, reason = i.param(p, q)
		case *syntax.CmdSubst:
			reason = i.at(p) + ": command substitution is not run"
		default:
			reason = i.at(p) + ": this expansion is not evaluated"
		}
		if reason != "" {
			return nil, reason
		}
		v = append(v, more...)
		if i.charge(more.size()); i.d.dead != "" {
			return nil, i.d.dead
		}
	}
	return v, ""
}

// param expands $NAME, ${NAME} and the forms with - + = and their colons.
func (i *interp) param(p *syntax.ParamExp, q quoting) (value, string) {
	if p.Param == nil || !syntax.ValidName(p.Param.Value) || p.Excl || p.Length || p.Index != nil || p.Slice != nil ||
		p.Repl != nil || p.Names != 0 {
		return nil, i.at(p) + ": this expansion is not evaluated"
	}
	name := p.Param.Value
	old := i.get(name)
	if p.Exp == nil || old.reason != "" {
		return old.value, old.reason
	}
	_, set := i.d.vars[name]
	var word []syntax.WordPart
	if p.Exp.Word != nil {
		word = p.Exp.Word.Parts
	}
	switch p.Exp.Op {
	case syntax.DefaultUnsetOrNull, syntax.AlternateUnsetOrNull, syntax.AssignUnsetOrNull:
		set = old.value.size() > 0
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		if set {
			return old.value, ""
		}
		return i.parts(word, q)
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if set {
			return i.parts(word, q)
		}
		return nil, ""
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if set {
			return old.value, ""
		}
		i.assign(p, name, false, word)
		return i.d.vars[name].value, i.d.vars[name].reason
	}
	return nil, i.at(p) + ": this expansion is not evaluated"
}
