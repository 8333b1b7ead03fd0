package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"busbar/report"
)

// Set by the build: go build -ldflags "-X main.version=1.2.3 -X main.commit=... -X main.date=...".
var version, commit, date string

// build says which busbar this is.
type build struct {
	FormatVersion string `json:"format_version"`
	Version       string `json:"version"`
	Commit        string `json:"commit"`
	// Date of the commit, RFC 3339 in UTC.
	Date string `json:"date"`
}

// thisBuild is what the build set, and else what the Go tool noted.
func thisBuild() build {
	b := build{report.FormatVersion, version, commit, date}
	if info, ok := debug.ReadBuildInfo(); ok {
		fill(&b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				fill(&b.Commit, s.Value)
			case "vcs.time":
				fill(&b.Date, s.Value)
			}
		}
	}
	fill(&b.Version, "unknown")
	fill(&b.Commit, "unknown")
	fill(&b.Date, "unknown")
	return b
}

func fill(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func newVersion(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which busbar this is",
		Args:  takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return c.result(func(w io.Writer, s report.Style) error {
				if s.Quiet {
					_, err := fmt.Fprintln(w, b.Version)
					return err
				}
				_, err := fmt.Fprintf(w, "busbar %s (commit %s, %s)\n", b.Version, b.Commit, b.Date)
				return err
			}, func(w io.Writer) error { return writeJSON(w, b) })
		},
	}
}
