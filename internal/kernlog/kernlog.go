// Package kernlog reads the log of the Linux kernel: the records of /dev/kmsg, and the text that dmesg(1), journalctl(1) and
// syslog make of them. Collect picks the lines that tell of faults on the paths of GPUs, by device.
package kernlog

import (
	"cmp"
	"strconv"
	"strings"

	"busbar/internal/lazyregexp"
)

// Record is one message of the kernel.
type Record struct {
	// Priority is 0 (emergency) to 7 (debug), as syslog(2) has it; nil where the text does not say it.
	Priority *int
	When     When
	// Text is the message; one of several lines has newlines.
	Text string
}

// When is the time of a message as the log has it: one of these, or neither.
type When struct {
	// Seconds since the machine was booted.
	Seconds *float64 `json:"since_boot_s,omitempty"`
	// Clock is the time of day as it was printed.
	Clock string `json:"clock,omitempty"`
}

// String is "12.3 s after boot", or the time of day; empty where the log does not say when.
func (w When) String() string {
	if w.Seconds != nil {
		return strconv.FormatFloat(*w.Seconds, 'f', 1, 64) + " s after boot"
	}
	return w.Clock
}

// Log is what could be read of a log.
type Log struct {
	Records []Record
	// Lost is how many older records the kernel's ring buffer has dropped; nil where the text does not say it.
	Lost *uint64
}

// ParseKmsg reads records as read(2) of /dev/kmsg gives them, one after the other (Documentation/ABI/testing/dev-kmsg):
// "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE" and lines of properties, which begin with a blank. The sequence starts with
// 0 at boot; what is missing from it is lost. Lines of another form are passed over.
func ParseKmsg(text string) Log {
	var log Log
	var lost, next uint64
	for line := range strings.Lines(text) {
		r, sequence, ok := parseKmsgLine(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		if sequence > next {
			lost += sequence - next
		}
		next = sequence + 1
		log.Records = append(log.Records, r)
	}
	if next > 0 {
		log.Lost = &lost
	}
	return log
}

// parseKmsgLine reads one record; false for a line of another form.
func parseKmsgLine(line string) (r Record, sequence uint64, ok bool) {
	prefix, message, ok := strings.Cut(line, ";")
	fields := strings.Split(prefix, ",")
	if !ok || strings.HasPrefix(line, " ") || len(fields) < 4 {
		return r, 0, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	sequence, err2 := strconv.ParseUint(fields[1], 10, 63)
	micros, err3 := strconv.ParseUint(fields[2], 10, 63)
	if cmp.Or(err, err2, err3) != nil {
		return r, 0, false
	}
	level, seconds := int(priority&7), float64(micros)/1e6
	return Record{Priority: &level, When: When{Seconds: &seconds}, Text: unescape(message)}, sequence, true
}

// KmsgLine takes a line as ParseKmsg does.
func (c *Collector) KmsgLine(line string) {
	if r, _, ok := parseKmsgLine(line); ok {
		c.Add(r)
	}
}

var escaped = lazyregexp.New(`\\x[0-9a-f]{2}`)

// unescape undoes what msg_add_ext_text of kernel/printk/printk.c does to bytes that are no printable ASCII, and to backslashes.
func unescape(message string) string {
	if !strings.Contains(message, `\x`) {
		return message
	}
	text := escaped.ReplaceAllStringFunc(message, func(code string) string {
		b, _ := strconv.ParseUint(code[2:], 16, 8) // two hexadecimal digits
		return string([]byte{byte(b)})
	})
	return strings.ToValidUTF8(text, "?")
}

// The forms of a line, after escape codes of colours are gone.
var (
	colour = lazyregexp.New("\x1b\\[[0-9;]*m")
	// dmesg --raw: <6>, <30>.
	raw = lazyregexp.New(`^<(\d{1,3})>`)
	// dmesg --decode: "kern  :warn  : ".
	decoded = lazyregexp.New(`^[a-z0-9]+ *:(emerg|alert|crit|err|warn|notice|info|debug) *: ?`)
	// Seconds since boot, with the caller behind (CONFIG_PRINTK_CALLER): "[   12.345678] ", "[   12.345678][    T1] ".
	seconds = lazyregexp.New(`^\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])? ?`)
	// A time of day, of dmesg --ctime and --reltime: "[Sun Feb 23 16:24:18 2025] ", "[Aug 4 09:48] ", "[  +0.000012] ".
	ctime = lazyregexp.New(`^\[( *\+\d+\.\d+|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} *\d+ \d\d:\d\d(?::\d\d \d{4})?)\](?:\[ *[TC]\d+\])? ?`)
	// dmesg --time-format iso: "2025-01-21T04:41:44,285060+00:00 ".
	iso = lazyregexp.New(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d+[-+]\d\d:\d\d `)
	// journalctl and syslog: a time, the host, who speaks: "Sep 24 20:30:43 ubu kernel: ", "2025-01-21T04:41:44+0000 ubu kernel: ".
	journal = lazyregexp.New(`^([A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)?|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?[-+A-Z][A-Z0-9:]*)?) \S+ (?:kernel: |([\w@.-]+\[\d+\]: ))`)
	// journalctl -o short-monotonic: behind the seconds, the host and who speaks.
	monotonic = lazyregexp.New(`^\S+ (?:kernel: |(systemd\[\d+\]: ))`)
)

var levels = map[string]int{"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warn": 4, "notice": 5, "info": 6, "debug": 7}

// ParseText reads what dmesg printed, with or without times, times of day, levels, facilities and colours, and what journalctl -k
// and a file of syslog have, in its short forms. A line without any of it is a message, an indented one goes on with the one before.
func ParseText(text string) Log {
	var log Log
	for line := range strings.Lines(text) {
		last := len(log.Records) - 1
		switch r, form := parseTextLine(line, last >= 0); form {
		case more:
			log.Records[last].Text += "\n" + r.Text
		case fresh:
			log.Records = append(log.Records, r)
		}
	}
	return log
}

// TextLine takes a line as ParseText does.
func (c *Collector) TextLine(line string) {
	switch r, form := parseTextLine(line, c.records > 0); form {
	case more:
		r.Priority, r.When = c.last.Priority, c.last.When
		c.line(r)
	case fresh:
		c.last = Record{Priority: r.Priority, When: r.When}
		c.Add(r)
	}
}

// What a line of text is: nothing, a record, or more of the one before.
const (
	blank = iota
	fresh
	more
)

func parseTextLine(line string, follows bool) (r Record, form int) {
	line = strings.TrimRight(line, "\r\n")
	if strings.Contains(line, "\x1b") {
		line = colour.ReplaceAllString(line, "")
	}
	r, stamped := parseLine(line)
	switch text := strings.TrimSpace(r.Text); {
	case text == "":
		return r, blank
	case !stamped && follows && strings.TrimLeft(line, " \t") != line:
		return Record{Text: text}, more
	}
	return r, fresh
}

// parseLine reads a line of text; stamped: it says when or how urgent.
func parseLine(line string) (r Record, stamped bool) {
	rest := line
	take := func(form *lazyregexp.Regexp) []string {
		m := form.FindStringSubmatch(rest)
		if m != nil {
			rest, stamped = rest[len(m[0]):], true
		}
		return m
	}
	if m := take(raw); m != nil {
		n, _ := strconv.Atoi(m[1]) // three digits at most
		level := n & 7
		r.Priority = &level
	} else if m := take(decoded); m != nil {
		level := levels[m[1]]
		r.Priority = &level
	}
	journaled := false
	if m := take(journal); m != nil {
		r.When.Clock, rest, journaled = m[1], m[2]+rest, true
	}
	switch m := take(seconds); {
	case m != nil:
		if !journaled {
			s, _ := strconv.ParseFloat(m[1], 64) // digits and a point; too many of them give infinity
			r.When.Seconds = finite(s)
		}
		if m := monotonic.FindStringSubmatch(rest); m != nil && !journaled {
			rest = m[1] + rest[len(m[0]):]
		}
	default:
		if m := take(ctime); m != nil {
			r.When.Clock = strings.TrimSpace(m[1])
		} else if m := take(iso); m != nil {
			r.When.Clock = strings.TrimSpace(m[0])
		}
	}
	r.Text = strings.ToValidUTF8(rest, "?")
	return r, stamped
}

// finite is nil for what JSON has no number for.
func finite(s float64) *float64 {
	if s > 1e15 {
		return nil
	}
	return &s
}
