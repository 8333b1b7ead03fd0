package main

import (
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

	jsonFile *os.File // of jsonInto
}

func (c *console) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolVar(&c.json, "json", false, "write the result as JSON")
	flags.StringVar(&c.jsonInto, "json-into", "", "write the result as JSON into `FILE`, besides")
	c.color = "auto"
	flags.Var(&c.color, "color", "colour text: auto, always or never; auto honours NO_COLOR and TERM=dumb")
	flags.BoolVar(&c.quiet, "quiet", false, "write as little as possible")
	flags.BoolVar(&c.verbose, "verbose", false, "write also what is in order, and why things matter")
	root.MarkFlagsMutuallyExclusive("quiet", "verbose")
	// The flag was declared just above.
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colorModes, cobra.ShellCompDirectiveNoFileComp))
}

// open makes the file of --json-into before a command does anything.
func (c *console) open() error {
	if c.jsonInto == "" {
		return nil
	}
	f, err := os.Create(c.jsonInto)
	if err != nil {
		return &exit{plan.ExitError, fmt.Errorf("--json-into: %w", err)}
	}
	c.jsonFile = f
	return nil
}

func (c *console) close() error {
	if c.jsonFile == nil {
		return nil
	}
	if err := c.jsonFile.Close(); err != nil {
		return fmt.Errorf("--json-into: %w", err)
	}
	return nil
}

// result writes a command's result in the views that are asked for. Several
// results of one command follow each other.
func (c *console) result(text func(io.Writer, report.Style) error, asJSON func(io.Writer) error) error {
	var errs []error
	if c.json {
		errs = append(errs, asJSON(c.out))
	} else {
		errs = append(errs, text(c.out, c.style(c.out)))
	}
	if c.jsonFile != nil {
		errs = append(errs, asJSON(c.jsonFile))
	}
	if err := errors.Join(errs...); err != nil {
		return &exit{plan.ExitError, fmt.Errorf("writing the result: %w", err)}
	}
	return nil
}

// style suits w: text is wrapped on terminals only.
func (c *console) style(w io.Writer) report.Style {
	s := report.Style{Color: c.color == "always", Verbose: c.verbose, Quiet: c.quiet}
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

// writeJSON writes a small result indented.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
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
