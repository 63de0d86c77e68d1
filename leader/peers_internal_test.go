package leader

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// Full disks make every node refuse requests that add to the log when the responsive voters with free space are no
// quorum (O5 full disks), whoever leads.
func TestO5NoRoom(t *testing.T) {
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
		want  bool
	}{
		"all have room":                {nodes: []int{roomy, roomy, roomy}},
		"the leader's":                 {nodes: []int{full, roomy, roomy}},
		"the only one":                 {nodes: []int{full}, want: true},
		"the leader's of two":          {nodes: []int{full, roomy}, want: true},
		"those that fell silent":       {nodes: []int{roomy, silent, silent}},
		"one of two followers":         {nodes: []int{roomy, full, roomy}},
		"both followers":               {nodes: []int{roomy, full, full}, want: true},
		"one that a quorum needs":      {nodes: []int{roomy, full, silent}, want: true},
		"two of four followers":        {nodes: []int{roomy, full, full, roomy, roomy}},
		"right after an election":      {nodes: []int{roomy, full, fresh}},
		"some time after an election":  {nodes: []int{roomy, full, fresh}, at: time.Minute, want: true},
		"a former member does not say": {nodes: []int{roomy, gone}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRounds(1, newPace(time.Second), 0)
			r.leads = 1
			for i, as := range test.nodes {
				m := &member{voter: true, present: as != gone, stream: &stream{}, processed: &round{}, answered: &round{}}
				m.report.full = as != roomy && as != fresh
				switch as {
				case silent:
					m.stream = nil
				case fresh:
					m.stream, m.answered, m.processed = nil, nil, nil
				}
				r.members[session.Node(i+1)] = m
			}
			if got := r.disksFull(test.at); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
	r := newRounds(1, newPace(time.Second), 0)
	r.leads = 1
	for node := session.Node(1); node <= 3; node++ {
		m := &member{voter: node == 1, present: true, stream: &stream{}, processed: &round{}}
		m.report.full = node > 1
		r.members[node] = m
	}
	if r.disksFull(0) {
		t.Error("the disks of observers have every node refuse")
	}
	if got := r.excluded(time.Minute); !slices.Equal(got.Full, []session.Node{2, 3}) {
		t.Errorf("no client is sent to %+v, want not to the observers with full disks", got)
	}
}
