// Package cufile reads and edits /etc/cufile.json, the configuration of the library cuFile (GPUDirect Storage): JSON with
// comments, which are kept as every other byte is that an edit is not about.
package cufile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Path is where cuFile looks for the file, unless CUFILE_ENV_PATH_JSON names another one.
const Path = "/etc/cufile.json"

// Setting is a value of the file.
type Setting struct {
	// Key are the names of members with dots between, from the outermost: properties.allow_compat_mode.
	Key string
	// Value is JSON.
	Value string
}

// CheckKey says why a key names no setting.
func CheckKey(key string) error {
	names := strings.Split(key, ".")
	if len(names) < 2 {
		return fmt.Errorf("%q names no setting: those of cufile.json stand in a section, as properties.allow_compat_mode does", key)
	}
	for _, name := range names {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return fmt.Errorf("%q is no name of a member: letters, digits and _ are", name)
		}
	}
	return nil
}

// CheckValue says why a setting cannot have a value: it is true, false, a number, a text, or a list of such.
func CheckValue(value string) error {
	v, err := hujson.Parse([]byte(value))
	if err != nil {
		return fmt.Errorf("%s is no JSON: %w", value, err)
	}
	if !v.IsStandard() || v.Value.Kind() == '{' || v.Value.Kind() == 'n' {
		return fmt.Errorf("%s is no value of a setting: true, false, numbers, texts and lists of them are", value)
	}
	return nil
}

// Equal compares two values: 1 and 1.0 are equal, the space between the elements of lists makes no difference.
func Equal(a, b string) bool {
	var x, y any
	if errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// File is a configuration that was parsed.
type File struct {
	text string
	root hujson.Value
}

// Parse reads a file; an empty text is one without settings. It fails where the text is no JSON with comments, is
// no object, or has a member twice.
func Parse(text string) (File, error) {
	if strings.TrimSpace(text) == "" {
		text = "{\n}\n"
	}
	root, err := hujson.Parse([]byte(text))
	if err != nil {
		return File{}, fmt.Errorf("it is no JSON with comments: %w", err)
	}
	if root.Value.Kind() != '{' {
		return File{}, errors.New("it holds no object")
	}
	for v := range root.All() {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			continue
		}
		seen := map[string]bool{}
		for _, m := range object.Members {
			name := m.Name.Value.(hujson.Literal).String()
			if seen[name] {
				return File{}, fmt.Errorf("%q stands twice in one object, on line %d again", name, 1+strings.Count(text[:m.Name.StartOffset], "\n"))
			}
			seen[name] = true
		}
	}
	return File{text, root}, nil
}

// Get is the value of a key as JSON, and the line, from 1, on which it stands; false where the file does not have it.
func (f File) Get(key string) (value string, line int, found bool) {
	v := f.root.Find(pointer(key))
	if v == nil {
		return "", 0, false
	}
	plain := v.Clone()
	plain.Minimize()
	return plain.String(), 1 + strings.Count(f.text[:v.StartOffset], "\n"), true
}

// pointer is the JSON pointer of a key.
func pointer(key string) string { return "/" + strings.ReplaceAll(key, ".", "/") }

// Set is the file's text with settings made, in their order. Nothing else changes. It fails where a key goes through
// what is no object.
func (f File) Set(settings []Setting) (string, error) {
	root, err := hujson.Parse([]byte(f.text)) // Clone would lose commas behind the last member
	if err != nil {
		return "", err
	}
	for _, s := range settings {
		value, err := hujson.Parse([]byte(s.Value))
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.Key, err)
		}
		if old := root.Find(pointer(s.Key)); old != nil {
			old.Value = value.Value
			continue
		}
		if err := add(&root, strings.Split(s.Key, "."), value.Value, "\n"); err != nil {
			return "", fmt.Errorf("%s: %w", s.Key, err)
		}
	}
	return root.String(), nil
}

// step is how much deeper the members of an object are set than its own name.
const step = "    "

// add makes a member of the object in v, or of the one that names lead to. before is the blank in front of
// the object's own name.
func add(v *hujson.Value, names []string, value hujson.ValueTrimmed, before string) error {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%s is no object", v.String())
	}
	for i := range object.Members {
		m := &object.Members[i]
		if name, ok := m.Name.Value.(hujson.Literal); ok && name.String() == names[0] && len(names) > 1 {
			return add(&m.Value, names[1:], value, blank(m.Name.BeforeExtra, before+step))
		}
	}
	inside := before + step
	if n := len(object.Members); n > 0 {
		inside = blank(object.Members[n-1].Name.BeforeExtra, inside)
	}
	member := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(names[0])}, Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value}}
	if len(names) > 1 {
		nested := hujson.Value{BeforeExtra: hujson.Extra(" "), Value: &hujson.Object{}}
		if err := add(&nested, names[1:], value, inside); err != nil {
			return err
		}
		member.Value = nested
	}
	insert(object, member, inside, before)
	return nil
}

// insert puts a member behind the others. Comments behind the last of them stay there; the object's
// end keeps its place.
func insert(object *hujson.Object, member hujson.ObjectMember, inside, before string) {
	comments, end := object.AfterExtra, blank(object.AfterExtra, before)
	if i := bytes.LastIndexByte(comments, '\n'); i >= 0 && len(bytes.TrimSpace(comments)) > 0 {
		comments = comments[:i]
	} else if len(bytes.TrimSpace(comments)) == 0 {
		comments = nil
	}
	member.Name.BeforeExtra = append(slices.Clone(comments), inside...)
	if n := len(object.Members); n > 0 && object.Members[n-1].Value.AfterExtra != nil {
		member.Value.AfterExtra = hujson.Extra{} // a comma behind the last one, as there was
	}
	object.Members = append(object.Members, member)
	object.AfterExtra = hujson.Extra(end)
}

// blank is the space before a name: the line's end and what the line is set in by; otherwise where it stands on the line of
// what is before it.
func blank(before hujson.Extra, otherwise string) string {
	i := bytes.LastIndexByte(before, '\n')
	if i < 0 {
		return otherwise
	}
	rest := before[i:]
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, "\n\r\t "))])
}
