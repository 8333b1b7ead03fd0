package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"busbar/plan"
	"busbar/profiles"
	"busbar/report"
)

// console is where a command reads and writes, and how: the global flags.
type console struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	json     bool
	jsonInto string
	color    colorMode
	quiet    bool
	verbose  bool

	into     bytes.Buffer         // what goes into jsonInto
	resulted bool                 // a result was written, or the failure that takes its place
	diags    profiles.Diagnostics // that were shown
	lines    bool                 // several results: one a line
	inputs   map[string]bool      // pipes that were read

	peeked map[string]io.ReadCloser // pipes that were looked at and not read
}

func (c *console) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolVar(&c.json, "json", false, "write the result as JSON")
	flags.StringVar(&c.jsonInto, "json-into", "", "write the result as JSON into `FILE`, besides")
	c.color = "auto"
	flags.Var(&c.color, "color", "colour text: auto, always or never; auto honours NO_COLOR and TERM=dumb")
	flags.BoolVar(&c.quiet, "quiet", false, "write as little as possible")
	flags.BoolVar(&c.verbose, "verbose", false, "write also what is in order, and why things matter")
	// The flag was declared just above.
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colorModes, cobra.ShellCompDirectiveNoFileComp))
}

// checkFlags refuses, before a command does anything, flags that exclude each other and a
// file of --json-into that cannot be written.
func (c *console) checkFlags(cmd *cobra.Command) error {
	flags := cmd.Flags()
	for _, pair := range [][2]string{{"quiet", "verbose"}, {"root", "node"}} {
		if flags.Changed(pair[0]) && flags.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	return c.checkJSONInto(cmd)
}

// checkJSONInto forgets a file that nothing can be written into.
func (c *console) checkJSONInto(cmd *cobra.Command) error {
	name := c.jsonInto
	c.jsonInto = ""
	switch {
	case !cmd.Flags().Changed("json-into"):
		return nil
	case name == "":
		return errors.New("--json-into names no file") // an unset variable in a script
	case stdout.MatchString(name):
		return errors.New("--json-into wants a file; --json writes to standard output")
	}
	if err := checkOutput(name); err != nil {
		return &exit{plan.ExitError, fmt.Errorf("--json-into: %w", err)}
	}
	c.jsonInto = name
	return nil
}

// writeJSONInto writes the file of --json-into, which until then is as it was.
func (c *console) writeJSONInto() error {
	if c.into.Len() == 0 {
		return nil
	}
	if err := c.writeOutput(c.jsonInto, c.into.Bytes()); err != nil {
		return fmt.Errorf("--json-into: %w", err)
	}
	return nil
}

// failure is the document of a command that came to no result.
type failure struct {
	FormatVersion string               `json:"format_version"`
	Command       string               `json:"command"`
	Recording     string               `json:"recording,omitempty"` // of several
	Error         string               `json:"error"`
	Diagnostics   profiles.Diagnostics `json:"diagnostics"`
	ExitCode      int                  `json:"exit_code"`
}

func newFailure(command string, e *exit, diags profiles.Diagnostics) failure {
	f := failure{FormatVersion: report.FormatVersion, Command: command, Error: firstError(diags), Diagnostics: append(profiles.Diagnostics{}, diags...), ExitCode: e.code}
	if e.err != nil {
		f.Error = e.err.Error()
	}
	return f
}

// tell tells people in one line what is the matter. Whatever it says of the names and texts of others cannot steer
// their terminal.
func (c *console) tell(format string, args ...any) {
	fmt.Fprintf(c.err, "busbar: %s\n", report.Printable(fmt.Sprintf(format, args...), ""))
}

// fail writes the document of a failure, where JSON is asked for. That people are told is
// another matter.
func (c *console) fail(command string, e *exit) {
	c.resulted = true
	f := newFailure(command, e, c.diags)
	indent := "  "
	if c.lines {
		indent = ""
	}
	if c.json {
		_ = encode(c.out, f, indent) // run looks at what it remembers
	}
	if c.jsonInto != "" {
		_ = encode(&c.into, f, indent) // into memory
	}
}

// result writes a command's result in the views that are asked for. Several
// results of one command follow each other.
func (c *console) result(text func(io.Writer, report.Style) error, asJSON func(io.Writer) error) error {
	c.resulted = true
	var errs []error
	if c.json {
		errs = append(errs, asJSON(c.out))
	} else {
		errs = append(errs, text(c.out, c.style(c.out)))
	}
	if c.jsonInto != "" {
		errs = append(errs, asJSON(&c.into))
	}
	if err := errors.Join(errs...); err != nil {
		return &exit{plan.ExitError, fmt.Errorf("writing the result: %w", err)}
	}
	return nil
}

// style suits w: text is wrapped on terminals only.
func (c *console) style(w io.Writer) report.Style {
	s := report.Style{Color: c.color == "always", Verbose: c.verbose, Quiet: c.quiet}
	if checked, ok := w.(*checkedWriter); ok {
		w = checked.Writer
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Width = 80
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
	}
	if c.color == "auto" {
		// https://no-color.org: set and not empty.
		s.Color = c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"
	}
	return s
}

// checkedWriter remembers that writing failed, also where the one who writes does not care.
type checkedWriter struct {
	io.Writer
	err error
}

// Write writes.
func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// writeJSON writes a small result indented.
func writeJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

func encode(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// colorMode is the flag --color.
type colorMode string

var colorModes = []string{"auto", "always", "never"}

// Set refuses what is no mode.
func (m *colorMode) Set(s string) error {
	if !slices.Contains(colorModes, s) {
		return fmt.Errorf("want one of %s", strings.Join(colorModes, ", "))
	}
	*m = colorMode(s)
	return nil
}

// String is the mode.
func (m *colorMode) String() string { return string(*m) }

// Type stands in the help text.
func (m *colorMode) Type() string { return "WHEN" }
