package nccllog

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a log can make the reader keep. What is beyond them is counted, or left out of lists.
const (
	maxLine     = 64 << 10 // NCCL's own lines are 1,023 bytes at most before 2.30
	maxPairs    = 1 << 16
	maxRanks    = 1 << 16
	maxListed   = 1024 // of pairs, and of ranks
	maxHosts    = 1 << 14
	maxThreads  = 1 << 16
	maxComms    = 1 << 12
	maxFew      = 128 // of what a log has few of: variables, warnings, devices
	maxText     = 300
	maxChannels = 64 // MAXCHANNELS of src/include/device.h
)

// Read reads a log to its end. Whatever the text is, a Log comes of it; the error is r's, and the Log is of what came before.
func Read(r io.Reader) (Log, error) {
	p := NewParser()
	err := p.Read(r)
	return p.Log(), err
}

// Read takes a log to its end, as one of several of a job. The numbers of its lines follow those of the one before.
func (p *Parser) Read(r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		whole := err == nil
		if len(line) > 0 {
			p.Line(strings.TrimSuffix(string(line), "\n"), whole)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is none of NCCL's
			_, err = in.ReadSlice('\n')
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Parse reads a text that is held already. A last line without a newline may have been cut off, and is trusted less.
func Parse(text string) Log {
	log, _ := Read(strings.NewReader(text)) // a strings.Reader has no errors
	return log
}

// IsMessage reports whether a line holds a message of NCCL's.
func IsMessage(line string) bool {
	_, _, ok := nextMarker(line, 0)
	return ok || version(line) != ""
}

type process struct {
	host string
	pid  int
}

type thread struct {
	process
	tid int
}

type rankKey struct {
	comm string
	rank int
}

// work is what is known of a process.
type work struct {
	ranks       map[string]int    // its number in each communicator
	byPointer   map[string]string // commId by the communicator's address
	started     int
	complete    int
	lastWarning string
	failure     *Failure
}

type pairKey struct {
	comm, host string
	from, to   int
	Transport
}

type pairState struct {
	mask uint64 // of channels
	line int
	// peer is the rank whose host the line does not tell, bracket what stands in brackets behind it, and own behind the other.
	peer         int
	bracket, own string
	scope        Scope
}

// commState is a communicator while it is read.
type commState struct {
	size, nodes int
	hosts       map[int][]string // of a rank
	brackets    map[int]string   // of a rank: its busId or NVML number
	local       map[string]int   // ranks on a host, as NCCL counts them
}

// Parser takes a log line by line.
type Parser struct {
	log       Log
	versions  map[string]bool
	hosts     map[string]string // names seen, interned
	work      map[process]*work
	threads   map[thread]string // the communicator that it initialises
	comms     map[string]*commState
	ranks     map[rankKey]*Rank
	pairs     map[pairKey]*pairState
	overflow  map[Transport]*Sum
	variables map[Variable]bool
	warnings  map[string]int // index in the log
	networks  map[string]int
	devices   map[Device]bool
	hints     map[GPUDirectHint]bool
}

// NewParser makes a Parser that has read nothing.
func NewParser() *Parser {
	return &Parser{
		versions: map[string]bool{}, hosts: map[string]string{}, work: map[process]*work{}, threads: map[thread]string{}, comms: map[string]*commState{},
		ranks: map[rankKey]*Rank{}, pairs: map[pairKey]*pairState{}, overflow: map[Transport]*Sum{}, variables: map[Variable]bool{},
		warnings: map[string]int{}, networks: map[string]int{}, devices: map[Device]bool{}, hints: map[GPUDirectHint]bool{},
	}
}

// message is one of NCCL's, without what stands before it.
type message struct {
	process
	tid   int
	level string // INFO, WARN, TRACE, CALL
	text  string
	line  int
	// whole: a newline follows it.
	whole bool
}

// Line takes a line without its newline. whole is false where none followed.
func (p *Parser) Line(line string, whole bool) {
	p.log.Lines++
	if !strings.Contains(line, "CCL ") {
		return
	}
	line = strings.TrimRight(plain(line), "\r")
	if !strings.Contains(line, " NCCL ") && !strings.HasPrefix(line, "NCCL ") {
		if v := version(line); v != "" {
			p.addVersion(v)
		}
		return
	}
	at, level, ok := nextMarker(line, 0)
	if !ok {
		if v := version(line); v != "" {
			p.addVersion(v)
		}
		return
	}
	host, pid, tid, _ := p.origin(line[:at])
	for ok {
		m := message{process: process{host, pid}, tid: tid, level: level, line: p.log.Lines, whole: whole}
		body := at + len("NCCL ") + len(level) + 1
		end := len(line)
		at, level, ok = nextMarker(line, body)
		if ok { // another process wrote before the newline
			var start int
			host, pid, tid, start = p.origin(line[body:at])
			end, m.whole = body+start, false
		}
		m.text = strings.TrimRight(line[min(body, end):end], " ")
		p.message(m)
	}
}

var levels = []string{"INFO", "WARN", "TRACE", "CALL"}

// nextMarker finds "NCCL LEVEL " at or behind from: where it begins, and the level.
func nextMarker(line string, from int) (at int, level string, ok bool) {
	for from < len(line) {
		i := strings.Index(line[from:], "NCCL ")
		if i < 0 {
			return 0, "", false
		}
		at = from + i
		rest := line[at+len("NCCL "):]
		for _, l := range levels {
			if strings.HasPrefix(rest, l) && strings.HasPrefix(rest[len(l):]+" ", " ") && (at == 0 || line[at-1] == ' ') && len(rest) > len(l) {
				return at, l, true
			}
		}
		from = at + len("NCCL ")
	}
	return 0, "", false
}

// plain takes out the escape sequences of terminals (ECMA-48: ESC [ parameters, a final byte).
func plain(line string) string {
	if !strings.Contains(line, "\x1b") {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] != 0x1b {
			b.WriteByte(line[i])
			continue
		}
		if i+1 < len(line) && line[i+1] == '[' {
			i += 2
			for i < len(line) && (line[i] < 0x40 || line[i] > 0x7e) {
				i++
			}
		}
	}
	return b.String()
}

// origin reads HOST:PID:TID [DEVICE], and behind it FILE:LINE (FUNCTION) of warnings and the time of traces, from the end of what stands
// before "NCCL". start is where it begins; all of it where there is none.
func (p *Parser) origin(before string) (host string, pid, tid, start int) {
	start = len(before)
	s := strings.TrimRight(before, " ")
	for range 4 {
		if strings.HasSuffix(s, "]") {
			break
		}
		i := strings.LastIndexByte(s, ' ')
		if i < 0 {
			break
		}
		s = strings.TrimRight(s[:i], " ")
	}
	if open := strings.LastIndexByte(s, '['); open >= 0 && strings.HasSuffix(s, "]") {
		if _, err := strconv.Atoi(s[open+1 : len(s)-1]); err == nil {
			s = strings.TrimRight(s[:open], " ")
		}
	}
	s, tid, ok := lastNumber(s)
	if !ok {
		return "", 0, 0, start
	}
	s, pid, ok = lastNumber(s)
	if !ok {
		return "", 0, 0, start
	}
	begin := len(s)
	for begin > 0 && isHostByte(s[begin-1]) {
		begin--
	}
	name := s[begin:]
	if name == "" || len(name) > 255 {
		return "", 0, 0, start
	}
	if known, ok := p.hosts[name]; ok {
		return known, pid, tid, begin
	}
	// What another process had begun to write may stand right before the name.
	for i := 1; i < len(name); i++ {
		if known, ok := p.hosts[name[i:]]; ok && p.work[process{known, pid}] != nil {
			return known, pid, tid, begin + i
		}
	}
	if begin > 0 && !strings.ContainsRune(" \t:>])|,;", rune(s[begin-1])) || len(p.hosts) >= maxHosts {
		return "", pid, tid, begin
	}
	name = strings.Clone(name)
	p.hosts[name] = name
	return name, pid, tid, begin
}

// lastNumber takes ":NUMBER" off the end of s.
func lastNumber(s string) (rest string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || len(s)-i > 11 {
		return s, 0, false
	}
	n, ok = number(s[i+1:])
	return s[:i], n, ok
}

// number reads digits, nine at most.
func number(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func isHostByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
}

// version reads "NCCL version 2.28.9+cuda13.0" and RCCL's; empty where the line has none.
func version(line string) string {
	i := strings.Index(line, "NCCL version ") // that of RCCL too, which ends in "CCL version"
	name := ""
	if i < 0 {
		if i = strings.Index(line, "RCCL version "); i < 0 {
			return ""
		}
		name = "RCCL "
	}
	text := line[i+len("NCCL version "):]
	end := 0
	for end < len(text) && (isHostByte(text[end]) && text[end] != '-' && text[end] != '_' || text[end] == '+') {
		end++
	}
	text = text[:end]
	release, build, _ := strings.Cut(text, "+")
	parts := strings.Split(release, ".")
	if len(parts) < 3 || len(text) > 40 || slices.ContainsFunc(parts[:3], func(s string) bool { _, ok := number(s); return !ok }) {
		return ""
	}
	if build != "" {
		build = "+" + build
	}
	return name + strings.Join(parts[:3], ".") + build
}

func (p *Parser) addVersion(v string) {
	if len(p.versions) < maxFew {
		p.versions[strings.Clone(v)] = true
	}
}

// at is what is known of the message's process; nil where there are too many.
func (p *Parser) at(m message) *work {
	w := p.work[m.process]
	if w == nil && len(p.work) < maxThreads {
		w = &work{ranks: map[string]int{}, byPointer: map[string]string{}}
		p.work[m.process] = w
	}
	return w
}

// message takes one message.
func (p *Parser) message(m message) {
	p.log.Messages++
	w := p.at(m)
	if w == nil {
		return
	}
	t := m.text
	switch {
	case m.level == "TRACE" || m.level == "CALL":
		return
	case m.level == "WARN":
		w.lastWarning = short(t)
		p.warn(m, true)
		return
	case strings.HasPrefix(t, "Channel ") || strings.HasPrefix(t, "Ring "):
		p.channel(m, w)
		return
	case strings.HasPrefix(t, "CollNet ") || strings.HasPrefix(t, "Coll "):
		p.collNet(m, w)
		return
	case strings.Contains(t, " rank ") && (strings.HasPrefix(t, "comm ") || strings.Contains(t, " comm ")):
		if p.member(m, w) {
			return
		}
	}
	if v := version(t); v != "" {
		p.addVersion(v)
		return
	}
	if p.variable(m) || p.network(m) || p.trace(m, w) {
		return
	}
	p.warn(m, false)
}

func short(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + " ..."
	}
	return strings.ToValidUTF8(strings.Clone(s), "?")
}

// comm is the state of a communicator; of one too many, that of no name.
func (p *Parser) comm(id string) (string, *commState) {
	c := p.comms[id]
	if c == nil && len(p.comms) >= maxComms {
		id, c = "", p.comms[""]
	}
	if c == nil {
		id = strings.Clone(id)
		c = &commState{hosts: map[int][]string{}, brackets: map[int]string{}, local: map[string]int{}}
		p.comms[id] = c
	}
	return id, c
}

// commOf is the communicator that a line of a thread is about; empty where the process has several, or none that has a name.
func (p *Parser) commOf(m message, w *work) string {
	if id, ok := p.threads[thread{m.process, m.tid}]; ok && w.started > w.complete {
		return id
	}
	if len(w.ranks) == 1 {
		for id := range w.ranks {
			return id
		}
	}
	return ""
}

// place says that a rank is on a host.
func (c *commState) place(rank int, host, bracket string) {
	if len(c.hosts) >= maxRanks {
		return
	}
	if !slices.Contains(c.hosts[rank], host) && len(c.hosts[rank]) < 8 {
		c.hosts[rank] = append(c.hosts[rank], host)
	}
	if bracket != "" && c.brackets[rank] == "" {
		c.brackets[rank] = strings.Clone(bracket)
	}
}

// field is the word behind name in text, as in "rank 3".
func field(text, name string) string {
	i := strings.Index(" "+text, " "+name+" ")
	if i < 0 {
		return ""
	}
	word, _, _ := strings.Cut(text[i+len(name)+1:], " ")
	return word
}

// hexadecimal is a word that is 0x and digits, or empty.
func hexadecimal(word string) string {
	if digits, ok := strings.CutPrefix(word, "0x"); !ok || len(digits) > 16 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return word
}

// member reads the lines of a rank's initialisation:
//
//	comm 0x5581 rank 3 nranks 16 cudaDev 3 busId a01d0 - Init COMPLETE
//	[Rank 3] ncclCommInitRankConfig comm 0x5581 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId a01d0 commId 0xfe - Init START
//	comm 0x5581 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0
func (p *Parser) member(m message, w *work) bool {
	t := m.text
	rank, ok := number(field(t, "rank"))
	pointer := field(t, "comm")
	if !ok || pointer == "" {
		return false
	}
	if size, ok := number(field(t, "nRanks")); ok && field(t, "nNodes") != "" {
		_, c := p.comm(w.byPointer[pointer])
		c.size = max(c.size, size)
		c.place(rank, m.host, "")
		nodes, ok := number(field(t, "nNodes"))
		local, okLocal := number(field(t, "localRanks"))
		// With MNNVL a node is all that share a fabric.
		if field(t, "MNNVL") == "0" && ok && okLocal {
			c.nodes = max(c.nodes, nodes)
			if len(c.local) < maxHosts {
				c.local[m.host] = local
			}
		}
		return true
	}
	size, ok := number(field(t, "nranks"))
	start, complete := strings.HasSuffix(t, "- Init START"), strings.HasSuffix(t, "- Init COMPLETE")
	if !ok || !start && !complete {
		return ok
	}
	id, c := p.comm(hexadecimal(field(t, "commId")))
	c.size = max(c.size, size)
	c.place(rank, m.host, "")
	if len(w.ranks) < maxFew {
		w.ranks[id] = rank
		w.byPointer[strings.Clone(pointer)] = id
	}
	if start {
		w.started++
		if len(p.threads) < maxThreads {
			p.threads[thread{m.process, m.tid}] = id
		}
	} else {
		w.complete++
		w.started = max(w.started, w.complete)
		if w.failure != nil && w.failure.Init { // what failed was tried in another way
			w.failure = nil
		}
	}
	key := rankKey{id, rank}
	r := p.ranks[key]
	if r == nil {
		if len(p.ranks) >= maxRanks {
			return true
		}
		device, _ := number(field(t, "cudaDev"))
		r = &Rank{Comm: id, Rank: rank, Host: m.host, PID: m.pid, GPU: Address(field(t, "busId")), CUDADevice: device}
		p.ranks[key] = r
	}
	r.Complete = r.Complete || complete
	return true
}
