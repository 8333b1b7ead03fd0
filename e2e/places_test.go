//go:build e2e

package e2e

import (
	"math"
	"slices"
	"sync"
)

// longest are the scenarios that take more than a minute, the longest first: behind the two that come first of all, they
// are begun in this order and then the others, so that no machine runs alone at the end.
var longest = []string{
	"TestPowerCut", "TestBootTrouble", "TestDrivers", "TestFresh", "TestKills", "TestBootEntries", "TestFullDisk", "TestInitramfs", "TestLostArgument", "TestBootPartition", "TestAMD",
}

// places are where scenarios run: two at a time keep two cores busy.
var places = queue{free: 2}

// queue gives a number of places to those that wait, the longest scenario first.
type queue struct {
	mu      sync.Mutex
	free    int
	waiting []place
}

type place struct {
	scenario string
	given    chan struct{}
}

// enter waits for a place.
func (q *queue) enter(scenario string) {
	p := place{scenario, make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	q.give()
	q.mu.Unlock()
	<-p.given
}

// leave gives a place back.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.give()
}

// give gives free places to those whose turn it is.
func (q *queue) give() {
	for q.free > 0 && len(q.waiting) > 0 {
		slices.SortStableFunc(q.waiting, func(a, b place) int { return turn(a.scenario) - turn(b.scenario) })
		close(q.waiting[0].given)
		q.waiting = q.waiting[1:]
		q.free--
	}
}

// turn is the place of a scenario among the longest, or behind them.
func turn(scenario string) int {
	if i := slices.Index(longest, scenario); i >= 0 {
		return i
	}
	return math.MaxInt32
}
