package leader

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// Full disks have every node refuse what adds to the log when the leader's disk is full, or when the voters that are
// heard and have room are no quorum (O5).
func TestFullDisks(t *testing.T) {
	const (
		roomy = iota
		full
		silent // and its disk was full
		fresh  // has not answered in this term
		gone
	)
	for name, test := range map[string]struct {
		nodes []int // the first one leads
		at    time.Duration
		want  []session.Node
	}{
		"all have room":                {nodes: []int{roomy, roomy, roomy}},
		"the leader's":                 {nodes: []int{full, roomy, roomy}, want: []session.Node{1}},
		"one of two followers":         {nodes: []int{roomy, full, roomy}},
		"both followers":               {nodes: []int{roomy, full, full}, want: []session.Node{2, 3}},
		"one that a quorum needs":      {nodes: []int{roomy, full, silent}, want: []session.Node{2}},
		"two of four followers":        {nodes: []int{roomy, full, full, roomy, roomy}},
		"right after an election":      {nodes: []int{roomy, full, fresh}},
		"some time after an election":  {nodes: []int{roomy, full, fresh}, at: time.Minute, want: []session.Node{2}},
		"a former member does not say": {nodes: []int{roomy, gone}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRounds(1, newPace(time.Second), 0)
			r.leads = 1
			for i, as := range test.nodes {
				m := &member{voter: true, present: as != gone, stream: &stream{}, processed: &round{}, answered: &round{}}
				m.told.full = as != roomy && as != fresh
				switch as {
				case silent:
					m.stream = nil
				case fresh:
					m.stream, m.answered, m.processed = nil, nil, nil
				}
				r.members[session.Node(i+1)] = m
			}
			if got := r.fullDisks(test.at); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	r := newRounds(1, newPace(time.Second), 0)
	r.leads = 1
	for node := session.Node(1); node <= 3; node++ {
		m := &member{voter: node == 1, present: true, stream: &stream{}, processed: &round{}}
		m.told.full = node > 1
		r.members[node] = m
	}
	if got := r.fullDisks(0); got != nil {
		t.Errorf("observers with full disks: got %v", got)
	}
}
