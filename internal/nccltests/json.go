package nccltests

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// report is the file that a program of nccl-tests writes with -J, from version 2.17.3 on (src/util.cu): versions 1 and 2 of it,
// of which the second has more that is not read here. What was not reached is left out or null.
type report struct {
	Args []string `json:"args"`
	NCCL int      `json:"nccl_version"`
	// Config has, of each process, its first rank alone.
	Config struct {
		Threads int `json:"nthreads"`
		GPUs    int `json:"ngpus"` // of a thread
		Devices []struct {
			Rank int    `json:"rank"`
			Host string `json:"hostname"`
			PCI  string `json:"device_hex"`
			Name string `json:"device_info"`
		} `json:"devices"`
	} `json:"config"`
	Results     []reportRow `json:"results"`
	OutOfBounds *struct {
		Count int64 `json:"count"`
	} `json:"out_of_bounds"`
	Average struct {
		Bandwidth *figure `json:"bandwidth"`
	} `json:"average_bus_bandwidth"`
	// Misspelt is Average as it is written up to version 2.17.8.
	Misspelt struct {
		Bandwidth *figure `json:"bandwidith"`
	} `json:"average_bus_bandwidith"`
	Errors []string `json:"errors"`
}

type reportRow struct {
	Size  int64  `json:"size"`
	Count int64  `json:"count"`
	Type  string `json:"type"`
	RedOp string `json:"redop"`
	// Root is a number with blanks in front.
	Root       string      `json:"root"`
	OutOfPlace *reportHalf `json:"out_of_place"`
	InPlace    *reportHalf `json:"in_place"`
}

type reportHalf struct {
	Time    *figure `json:"time"`
	CPUTime *figure `json:"cpu_time"`
	AlgBW   *figure `json:"alg_bw"`
	BusBW   *figure `json:"bus_bw"`
	Wrong   *figure `json:"nwrong"`
}

// figure is a number, or "nan".
type figure float64

// UnmarshalJSON reads both forms.
func (f *figure) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil {
		return fmt.Errorf("%.40q is no number", raw)
	}
	*f = figure(n)
	return nil
}

// good reports a number that is there, finite and not below 0.
func (f *figure) good() bool { return f != nil && *f >= 0 && !math.IsInf(float64(*f), 0) }

// result is the file's one run.
func (r report) result() (Result, error) {
	run := Run{NCCL: strconv.Itoa(r.NCCL)}
	if len(r.Args) > 0 {
		run.Collective = printable(path.Base(r.Args[0]))
	}
	for _, d := range r.Config.Devices {
		run.Devices = append(run.Devices, Device{Rank: d.Rank, Host: d.Host, PCI: strings.ToLower(d.PCI), Name: printable(d.Name)})
	}
	if each := r.Config.Threads * r.Config.GPUs; each > 1 && each < maxInput {
		run.Ranks = each * len(run.Devices)
	}
	for _, row := range r.Results {
		if parsed, ok := row.row(); ok {
			run.Rows = append(run.Rows, parsed)
		} else {
			run.Broken++
		}
	}
	if r.OutOfBounds != nil {
		run.OutOfBounds = &r.OutOfBounds.Count
	} else if len(r.Errors) > 0 {
		run.Failure = printable(strings.TrimSpace(r.Errors[0]))
	}
	for _, f := range []*figure{r.Average.Bandwidth, r.Misspelt.Bandwidth} {
		if f.good() {
			run.Average = (*float64)(f)
		}
	}
	if len(run.Rows) == 0 && run.Broken == 0 && run.Failure == "" {
		return Result{}, errors.New("has no results of nccl-tests")
	}
	return Result{Runs: []Run{run}}, nil
}

func (r reportRow) row() (Row, bool) {
	parsed := Row{Size: r.Size, Count: r.Count, Type: printable(r.Type), RedOp: printable(r.RedOp)}
	if root, err := strconv.Atoi(strings.TrimSpace(r.Root)); err == nil {
		parsed.Root = &root
	}
	var one, other bool
	parsed.OutOfPlace, one = r.OutOfPlace.measure()
	parsed.InPlace, other = r.InPlace.measure()
	return parsed, one && other && r.Size >= 0 && r.Count >= 0 && r.Type != "" && parsed.InPlace != nil
}

// measure is nil for what was not done; false where a number is none.
func (h *reportHalf) measure() (*Measure, bool) {
	if h == nil {
		return nil, true
	}
	time := h.Time
	if time == nil {
		time = h.CPUTime
	}
	if !time.good() || !h.AlgBW.good() || !h.BusBW.good() {
		return nil, false
	}
	m := Measure{Time: float64(*time), AlgBW: float64(*h.AlgBW), BusBW: float64(*h.BusBW)}
	if h.Wrong != nil {
		if !h.Wrong.good() || *h.Wrong >= math.MaxInt64 {
			return nil, false
		}
		wrong := int64(math.Ceil(float64(*h.Wrong)))
		m.Wrong = &wrong
	}
	return &m, true
}
