// Package stats holds the faults and findings of one seed of the simulation, and the sums over many seeds.
package stats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"holdfast/session"
)

// Report is the report of one seed.
type Report struct {
	Seed  uint64 `json:"seed"`
	Nodes int    `json:"nodes"`
	// Begun marks a line that only says that the seed begins. When no other line follows, the seed crashed or hung.
	Begun bool `json:"begun,omitempty"`
	// Failures has one line for each failure.
	Failures []string `json:"failures,omitempty"`
	// Artifacts is the directory with the history of a failed seed.
	Artifacts string `json:"artifacts,omitempty"`
	// Virtual is how long the simulated cluster lived, Wall the real time of the run.
	Virtual time.Duration `json:"virtual_ns,omitempty"`
	Wall    time.Duration `json:"wall_ns,omitempty"`
	// Faults counts the injected faults by kind, Hit those that hit something.
	Faults map[string]int `json:"faults,omitempty"`
	Hit    map[string]int `json:"hit,omitempty"`
	// Counts counts sessions opened, moved and ended by cause, promises, and more.
	Counts map[string]int `json:"counts,omitempty"`
	// Checked counts by invariant the cases that tested it.
	Checked map[string]int `json:"checked,omitempty"`
}

// New returns the report of a seed that has done nothing.
func New(seed uint64, nodes int) *Report {
	return &Report{
		Seed: seed, Nodes: nodes,
		Faults: make(map[string]int), Hit: make(map[string]int), Counts: make(map[string]int),
		Checked: make(map[string]int),
	}
}

// Append appends the report as a line to the file at path.
func (r *Report) Append(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("append a report: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// Read returns the reports in a file, and the seeds that have begun and not ended. The process that wrote it may have
// died in the middle of a line.
func Read(r io.Reader) (ended []Report, begun []uint64, err error) {
	open := make(map[uint64]bool)
	var order []uint64
	for d := json.NewDecoder(r); ; {
		var one Report
		err = d.Decode(&one)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read reports: %w", err)
		}
		if one.Begun {
			open[one.Seed] = true
			order = append(order, one.Seed)
			continue
		}
		delete(open, one.Seed)
		ended = append(ended, one)
	}
	for _, seed := range order {
		if open[seed] {
			begun = append(begun, seed)
		}
	}
	return ended, begun, nil
}

// Failure is a failed seed, with the reasons.
type Failure struct {
	Seed uint64   `json:"seed"`
	Text []string `json:"text"`
	// Artifacts is the directory of its history, "" for none.
	Artifacts string `json:"artifacts,omitempty"`
}

// Installed names the count of followers that a leader has sent a snapshot to.
const Installed = "snapshots installed"

// Reads names the count of reads that nodes in a mode answered.
func Reads(m session.Mode) string { return "reads: " + m.String() }

// Sum is the sum of many reports.
type Sum struct {
	// Seeds is the number of ended seeds, failed seeds included. ByNodes counts them by the size of their cluster.
	Seeds   int         `json:"seeds"`
	ByNodes map[int]int `json:"seeds_by_nodes"`
	// Failures are in the order in which they were added.
	Failures []Failure `json:"failures"`
	// Virtual and Busy are the sums of the reports' Virtual and Wall.
	Virtual time.Duration `json:"virtual_ns"`
	Busy    time.Duration `json:"busy_ns"`
	// Faults, Hit, Counts and Checked are the sums of the reports' counts.
	Faults  map[string]int `json:"faults"`
	Hit     map[string]int `json:"hit"`
	Counts  map[string]int `json:"counts"`
	Checked map[string]int `json:"checked"`
}

// NewSum returns an empty sum.
func NewSum() *Sum {
	return &Sum{
		ByNodes: make(map[int]int), Failures: []Failure{},
		Faults: make(map[string]int), Hit: make(map[string]int), Counts: make(map[string]int),
		Checked: make(map[string]int),
	}
}

// Add adds a report.
func (s *Sum) Add(r *Report) {
	s.Seeds++
	s.ByNodes[r.Nodes]++
	s.Virtual += r.Virtual
	s.Busy += r.Wall
	if len(r.Failures) > 0 {
		s.Failures = append(s.Failures, Failure{Seed: r.Seed, Text: r.Failures, Artifacts: r.Artifacts})
	}
	add(s.Faults, r.Faults)
	add(s.Hit, r.Hit)
	add(s.Counts, r.Counts)
	add(s.Checked, r.Checked)
}

func add(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}
