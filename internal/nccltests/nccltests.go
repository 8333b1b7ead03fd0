// Package nccltests reads what the programs of NVIDIA's nccl-tests print (all_reduce_perf and its siblings), from the table of
// April 2019 on (src/common.cu, later src/util.cu), and keeps it as a document to compare with.
package nccltests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/lazyregexp"
)

// Result is what was printed: one run of a program, or several.
type Result struct {
	Runs []Run `json:"runs"`
}

// Run is one run of a program.
type Run struct {
	// Collective is the program's name, all_reduce_perf; empty where it does not say it, as before version 2.17.
	Collective string `json:"collective,omitempty"`
	// Version of nccl-tests, and NCCL's as ncclGetVersion has it (22703); empty where it does not say them.
	Version string `json:"version,omitempty"`
	NCCL    string `json:"nccl,omitempty"`
	// Devices are the ranks, or the first of each process where only those are told (Ranks).
	Devices []Device `json:"devices,omitempty"`
	// Ranks is how many there were, where Devices does not have all; 0 elsewhere.
	Ranks int `json:"ranks,omitempty"`
	// Rows in their order.
	Rows []Row `json:"rows"`
	// OutOfBounds is how many values the program says were wrong; nil where the run did not come to its end.
	OutOfBounds *int64 `json:"out_of_bounds"`
	// Average is the mean bus bandwidth over all rows as the program prints it, in GB/s (10^9 bytes a second).
	Average *float64 `json:"average_bus_bandwidth_gb_per_s"`
	// Errors: the rows have the largest error of values that were compared, and not how many were wrong, as before August 2022.
	Errors bool `json:"errors,omitempty"`
	// Broken is how many rows cannot be read, as where the output of several processes runs together.
	Broken int `json:"broken_rows,omitempty"`
	// Failure is the first line with which the program gave up; empty where it did not.
	Failure string `json:"failure,omitempty"`
}

// Device is the GPU of a rank.
type Device struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	// PCI is domain, bus and device, 0000:1b:00; versions before 2.13 print the bus alone, 0x1b.
	PCI  string `json:"pci"`
	Name string `json:"name"`
}

// Row is one line of the table.
type Row struct {
	// Size in bytes, Count in elements of Type (float, bfloat16, f8e4m3 ...).
	Size  int64  `json:"size_bytes"`
	Count int64  `json:"count"`
	Type  string `json:"type"`
	// RedOp is sum, prod ...; none or empty where nothing is reduced.
	RedOp string `json:"redop,omitempty"`
	// Root is the root's rank; -1 where there is none, nil where it is not printed.
	Root *int `json:"root"`
	// OutOfPlace is with separate buffers, InPlace with one; nil for what was not done.
	OutOfPlace *Measure `json:"out_of_place"`
	InPlace    *Measure `json:"in_place"`
}

// Measure is one half of a row.
type Measure struct {
	// Time of one operation in microseconds.
	Time float64 `json:"time_us"`
	// AlgBW is size over time, BusBW what the links between the ranks carried (doc/PERFORMANCE.md), in GB/s (10^9 bytes a second).
	AlgBW float64 `json:"algbw_gb_per_s"`
	BusBW float64 `json:"busbw_gb_per_s"`
	// Wrong is how many values were wrong; nil where they were not compared (N/A), or where only their error is printed.
	Wrong *int64 `json:"wrong"`
}

// Name is the program's name, or that of the project.
func (r Run) Name() string {
	if r.Collective != "" {
		return r.Collective
	}
	return "nccl-tests"
}

// Size is how many ranks took part; 0 where that is not told.
func (r Run) Size() int { return max(r.Ranks, len(r.Devices)) }

// Baseline refuses a result that nothing can be compared with: a row from minSize bytes on without a bus bandwidth.
func (r Result) Baseline(minSize int64) error {
	for i, run := range r.Runs {
		if run.Broken > 0 || run.Failure != "" {
			return fmt.Errorf("is no baseline: run %d, %s, did not come to its end, or has rows that cannot be read", i+1, run.Name())
		}
		for _, row := range run.Rows {
			if row.Size < minSize {
				continue
			}
			if row.OutOfPlace == nil && row.InPlace == nil {
				return fmt.Errorf("is no baseline: run %d, %s, has nothing that was measured at a size of %d bytes", i+1, run.Name(), row.Size)
			}
			for _, m := range []*Measure{row.OutOfPlace, row.InPlace} {
				if m != nil && !(m.BusBW > 0) {
					return fmt.Errorf("is no baseline: run %d, %s, has a bus bandwidth of %v GB/s at a size of %d bytes: record a run that moved something", i+1, run.Name(), m.BusBW, row.Size)
				}
			}
		}
	}
	return nil
}

// Alike reports whether two rows measure the same.
func (r Row) Alike(other Row) bool {
	root := func(r Row) int {
		if r.Root == nil {
			return -1
		}
		return *r.Root
	}
	return r.Size == other.Size && r.Type == other.Type && r.RedOp == other.RedOp && root(r) == root(other)
}

var (
	// What mpirun --tag-output and kubectl logs put before a line.
	tag       = lazyregexp.New(`^\s*\[\d+,\d+\]<std(?:out|err)>: ?`)
	begins    = lazyregexp.New(`^#? ?nThreads?:? \d+ nGpus:? \d+ `)
	starting  = lazyregexp.New(`^# Collective test starting: (\S+)`)
	concluded = lazyregexp.New(`^# Collective test concluded: (\S+)`)
	version   = lazyregexp.New(`^# nccl-tests version (\S+) .*nccl-library=(\d+)`)
	device    = lazyregexp.New(`^#\s+Rank\s+(\d{1,9})(?: Group\s+\d+)? Pid\s+\d+ on\s+(\S+) device\s+\d+ \[([0-9a-fA-Fx:.]+)\] (.+?)\s*$`)
	bounds    = lazyregexp.New(`^(?:#\s*)?Out of bounds values\s*: (\d{1,18}) `)
	average   = lazyregexp.New(`^(?:#\s*)?Avg bus bandwidth\s*: (\S+)`)
	failure   = lazyregexp.New(`Test (?:NCCL |CUDA |MPI )?(?:failure|timeout)\b.*`)
	row       = lazyregexp.New(`^\d+\s+\d+\s+[a-z]\w*\s`)
)

// reader is the state between lines.
type reader struct {
	runs []Run
	// half are the columns of one half of a row, from time on; stamped: a date and a time follow the row.
	half    []string
	stamped bool
	// errors: the row that was read last has an error.
	errors bool
}

// Parse reads the text of one or more runs. Lines of others between, such as NCCL's log, are passed over. It is an error when
// there is no table.
func Parse(text string) (Result, error) {
	var r reader
	for line := range strings.Lines(text) {
		r.line(strings.TrimSpace(tag.ReplaceAllString(line, "")))
	}
	r.runs = slices.DeleteFunc(r.runs, func(run Run) bool { return len(run.Rows) == 0 && run.Broken == 0 && run.Failure == "" })
	if len(r.runs) == 0 {
		return Result{}, errors.New("has no table that a program of nccl-tests printed")
	}
	return Result{Runs: r.runs}, nil
}

// current is the run that a line belongs to; another one where the line begins a run and this one is under way.
func (r *reader) current(begins bool) *Run {
	last := len(r.runs) - 1
	if last < 0 || begins && (len(r.runs[last].Rows) > 0 || r.runs[last].OutOfBounds != nil) {
		r.runs = append(r.runs, Run{})
		last++
	}
	return &r.runs[last]
}

func (r *reader) line(line string) {
	switch {
	case row.MatchString(line):
		if r.half == nil {
			return // another program's table
		}
		run := r.current(false)
		if parsed, ok := r.row(strings.Fields(line)); ok {
			run.Rows = append(run.Rows, parsed)
			run.Errors = run.Errors || r.errors
		} else {
			run.Broken++
		}
	case begins.MatchString(line):
		r.current(true)
	case failure.MatchString(line):
		if run := r.current(false); run.Failure == "" {
			run.Failure = printable(failure.FindString(line))
		}
	default:
		r.comment(line)
	}
}

// comment reads what is no row: lines with # in front, but for the footer of before 2019.
func (r *reader) comment(line string) {
	if m := version.FindStringSubmatch(line); m != nil {
		run := r.current(true)
		run.Version, run.NCCL = m[1], m[2]
	} else if m := starting.FindStringSubmatch(line); m != nil {
		r.current(true).Collective = m[1]
	} else if m := concluded.FindStringSubmatch(line); m != nil {
		r.current(false).Collective = m[1]
	} else if m := device.FindStringSubmatch(line); m != nil {
		run := r.current(true)
		rank, _ := strconv.Atoi(m[1]) // nine digits at most
		run.Devices = append(run.Devices, Device{Rank: rank, Host: m[2], PCI: strings.ToLower(m[3]), Name: printable(m[4])})
	} else if m := bounds.FindStringSubmatch(line); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits at most
		r.current(false).OutOfBounds = &n
	} else if m := average.FindStringSubmatch(line); m != nil {
		if n, ok := rate(m[1]); ok {
			r.current(false).Average = &n
		}
	} else if words := strings.Fields(line); len(words) > 2 && words[0] == "#" && words[1] == "size" && words[2] == "count" {
		r.title(words)
	}
}

// title learns the columns: "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong".
func (r *reader) title(words []string) {
	isTime := func(w string) bool { return w == "time" || w == "cputime" }
	first := slices.IndexFunc(words, isTime)
	if first < 0 {
		return
	}
	rest := words[first+1:]
	second := slices.IndexFunc(rest, isTime)
	if second < 0 {
		return
	}
	half := words[first : first+1+second]
	if slices.Contains(half, "algbw") && slices.Contains(half, "busbw") {
		r.half, r.stamped = half, words[len(words)-1] == "timestamp"
	}
}

// row reads the fields of a line: size, count, type, perhaps the operation and the root, and one or two halves.
func (r *reader) row(fields []string) (Row, bool) {
	if r.stamped && len(fields) > 2 {
		fields = fields[:len(fields)-2]
	}
	n := len(r.half)
	halves := 2
	if len(fields) < 3+2*n { // a replay, which is done in place alone
		halves = 1
	}
	named := len(fields) - halves*n
	if named < 3 || named > 5 {
		return Row{}, false
	}
	size, err := strconv.ParseInt(fields[0], 10, 64)
	count, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || err2 != nil {
		return Row{}, false
	}
	parsed := Row{Size: size, Count: count, Type: fields[2]}
	for _, f := range fields[3:named] {
		if root, err := strconv.Atoi(f); err == nil && parsed.Root == nil {
			parsed.Root = &root
		} else if parsed.RedOp == "" {
			parsed.RedOp = f
		} else {
			return Row{}, false
		}
	}
	values := fields[named:]
	var ok bool
	if halves == 2 {
		if parsed.OutOfPlace, ok = r.measure(values[:n]); !ok {
			return Row{}, false
		}
		values = values[n:]
	}
	parsed.InPlace, ok = r.measure(values)
	return parsed, ok
}

func (r *reader) measure(values []string) (*Measure, bool) {
	var m Measure
	r.errors = false
	for i, column := range r.half {
		v, ok := rate(values[i])
		switch column {
		case "time", "cputime":
			m.Time = v
		case "algbw":
			m.AlgBW = v
		case "busbw":
			m.BusBW = v
		case "#wrong":
			if values[i] == "N/A" {
				continue
			}
			if ok && v < math.MaxInt64 {
				wrong := int64(math.Ceil(v))
				m.Wrong = &wrong
			}
		case "error":
			r.errors = ok
			continue
		default: // statistics of iterations
			continue
		}
		if !ok {
			return nil, false
		}
	}
	return &m, true
}

// rate is a number that is finite and not below 0.
func rate(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 0)
}

func printable(text string) string {
	const most = 200
	text = strings.ToValidUTF8(text, "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Command is the command's name in its documents.
const Command = "probe nccl-tests"

// maxInput bounds what is read: logs of many ranks with NCCL_DEBUG=INFO have some MiB.
const maxInput = 64 << 20

// Read reads the document that busbar probe nccl-tests writes as JSON, the file that nccl-tests writes (-J), or what it prints. A
// newer major version, another command's document and one that is cut off are errors.
func Read(r io.Reader) (Result, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	switch {
	case err != nil:
		return Result{}, err
	case len(raw) > maxInput:
		return Result{}, errors.New("is larger than 64 MiB")
	case !strings.HasPrefix(strings.TrimSpace(string(raw)), "{"):
		return Parse(string(raw))
	}
	var document struct {
		FormatVersion string `json:"format_version"`
		Command       string `json:"command"`
		Error         string `json:"error"`
		Result
		report
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return Result{}, fmt.Errorf("is no whole JSON document, neither of busbar probe nccl-tests nor of nccl-tests (-J): %w", err)
	}
	major, _, _ := strings.Cut(document.FormatVersion, ".")
	switch {
	case document.Command == "" && document.Args != nil:
		return document.result()
	case document.Command != Command:
		return Result{}, fmt.Errorf("is no JSON document of busbar probe nccl-tests: its command is %q", document.Command)
	case major != "1":
		return Result{}, fmt.Errorf("has format_version %q, and this busbar reads 1", document.FormatVersion)
	case document.Error != "":
		return Result{}, fmt.Errorf("has no result: %s", document.Error)
	case len(document.Runs) == 0:
		return Result{}, errors.New("has no run")
	}
	return document.Result, nil
}
