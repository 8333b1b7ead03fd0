package live

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"busbar/internal/nccllog"
	"busbar/node"
)

const (
	// maxNCCLLogs bounds how many processes' logs are read.
	maxNCCLLogs = 64
	// maxNCCLLog bounds the bytes that are read of them all. What channels took stands at the head of a log.
	maxNCCLLog = 64 << 20
)

// ncclLog reads the logs that NCCL_DEBUG_FILE=pattern makes (ncclDebugInit in src/debug.cc of NVIDIA/nccl).
func (s *session) ncclLog(pattern string) node.Value[node.NCCLLogState] {
	files, leftOut, err := s.ncclLogFiles(pattern)
	switch {
	case absent(err):
		return node.Known(node.NCCLLogState{}, node.Source{Path: pattern})
	case err != nil:
		return unknown[node.NCCLLogState](err, pattern)
	}
	parser, rest, cutOff := nccllog.NewParser(), int64(maxNCCLLog), ""
	for _, p := range files {
		n, err := s.readNCCLLog(parser, p, rest)
		switch {
		case absent(err) && len(files) == 1:
			return node.Known(node.NCCLLogState{}, node.Source{Path: p})
		case err != nil:
			return unknown[node.NCCLLogState](err, p)
		}
		if rest -= n; rest <= 0 {
			cutOff = fmt.Sprintf("only the first %d MiB were read", maxNCCLLog>>20)
			break
		}
	}
	state := node.NCCLLogState{Files: files, LeftOut: leftOut, Log: parser.Log()}
	state.Log.CutOff = cutOff
	source := node.Source{Path: pattern}
	if len(files) == 1 {
		source.Path = files[0]
	}
	return node.Known(state, source)
}

// ncclLogFiles are the files of a pattern. Of those of many processes they are the newest, by name; leftOut are older.
func (s *session) ncclLogFiles(pattern string) (files []string, leftOut int, err error) {
	if !path.IsAbs(pattern) {
		return nil, 0, refusal("is no absolute path")
	}
	host, _, _ := strings.Cut(s.inventory.Hostname, ".")
	parts, err := ncclPattern(pattern, host)
	if err != nil || len(parts) == 1 {
		return parts, 0, err
	}
	dir, first := path.Split(parts[0])
	if slices.ContainsFunc(parts[1:], func(part string) bool { return strings.Contains(part, "/") }) {
		return nil, 0, refusal("has %p in the name of a directory")
	}
	entries, err := s.entries(path.Clean(dir))
	if err != nil {
		return nil, 0, err
	}
	type file struct {
		name     string
		modified time.Time
	}
	var found []file
	for _, e := range entries {
		if !madeOf(e.Name(), first, parts[1:]) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed since
		}
		found = append(found, file{path.Join(dir, e.Name()), info.ModTime()})
	}
	slices.SortFunc(found, func(a, b file) int { return cmp.Or(b.modified.Compare(a.modified), strings.Compare(a.name, b.name)) })
	if leftOut = len(found) - maxNCCLLogs; leftOut > 0 {
		found = found[:maxNCCLLogs]
	}
	for _, f := range found {
		files = append(files, f.name)
	}
	slices.Sort(files)
	return files, max(leftOut, 0), nil
}

// ncclPattern splits a pattern at every %p, and puts the host's name for %h and % for %%. Anything else behind a % stays.
func ncclPattern(pattern, host string) ([]string, error) {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) {
			b.WriteByte(pattern[i])
			continue
		}
		i++
		switch pattern[i] {
		case '%':
			b.WriteByte('%')
		case 'h':
			if host == "" {
				return nil, refusal("the host's name is not known")
			}
			b.WriteString(host)
		case 'p':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteString(pattern[i-1 : i+1])
		}
	}
	return append(parts, b.String()), nil
}

// madeOf reports a name that is first and the parts with one process id between them all.
func madeOf(name, first string, parts []string) bool {
	rest, ok := strings.CutPrefix(name, first)
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	// A part may begin with digits of its own.
	for ; ok && digits > 0; digits-- {
		if pid := rest[:digits]; first+pid+strings.Join(parts, pid) == name {
			return true
		}
	}
	return false
}

// readNCCLLog reads at most limit bytes, and returns how many.
func (s *session) readNCCLLog(parser *nccllog.Parser, p string, limit int64) (int64, error) {
	fd, _, err := s.open(p)
	if err != nil {
		return 0, err
	}
	file := os.NewFile(uintptr(fd), p)
	defer closeAll(file)
	in := &io.LimitedReader{R: whileAsked{s.ctx, file}, N: limit}
	err = parser.Read(in)
	return limit - in.N, err
}

// whileAsked reads until its context ends.
type whileAsked struct {
	ctx context.Context
	in  io.Reader
}

// Read is that of io.Reader.
func (r whileAsked) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, fmt.Errorf("not read in time: %w", context.Cause(r.ctx))
	}
	return r.in.Read(b)
}
