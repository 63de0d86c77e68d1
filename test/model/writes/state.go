package writes

import "fmt"

// The arrays' sizes. An action that would exceed them is impossible until there is room.
const (
	processes  = 2
	maxNumbers = 3
	maxQueue   = 4
	maxLog     = 5
)

// State is one moment of the system. It has only byte fields. Fields marked "ghost" are for the oracle: only the
// checks of properties read them.
type State struct {
	Spent Counts
	// Head is the replicated state after all entries of the log.
	Head head
	// Log has the newest entries, from the first that a node which serves has not applied.
	Log    [maxLog]entry
	Logged uint8
	// Leads has the writes that the leader has accepted from streams, and Deposed those of former leaders: each may
	// still be committed, or is lost.
	Leads, Deposed queue
	Process        [processes]process
	Ghost          ghost
}

// head is the kept state of the session: its attachment, and its writer (X2 writers).
type head struct {
	Ended, Attachment, Instance uint8
	Applied, Floor, Acked       uint8
	Kept                        [1 + maxNumbers]result // by number
}

// result is the kept outcome of a write: whose write, and whether it was a void; 0 is none.
type result uint8

func resultOf(process, void uint8) result { return result(1 + process*2 + void) }

func (r result) process() uint8 { return (uint8(r) - 1) / 2 }
func (r result) void() bool     { return (uint8(r)-1)%2 == 1 }

// command is a proposal: a write, or an acknowledgement of a quiet session.
type command struct {
	Kind, Process, Attachment, Number, Acked, Void uint8
}

// Kinds of commands and entries.
const (
	write uint8 = 1 + iota
	acknowledge
	move
	end
)

func (c command) String() string {
	if c.Kind == acknowledge {
		return fmt.Sprintf("acknowledgement of %d", c.Acked)
	}
	return fmt.Sprintf("%s %d of %s through attachment %d", []string{"write", "void"}[c.Void], c.Number,
		name(int(c.Process)), c.Attachment)
}

func name(process int) string { return string(rune('A' + process)) }

// entry is an entry of the log with its outcome at every node.
type entry struct {
	command
	Verdict verdict
	Result  result
}

type verdict uint8

const (
	applied verdict = 1 + iota
	repeat
	unknown
	gap
	window
	fenced
)

func (v verdict) String() string {
	return [...]string{"-", "applied", "a repeat", "UNKNOWN", "GAP", "WINDOW", "fenced"}[v]
}

// queue has the accepted, uncommitted writes of a leader.
type queue struct {
	Commands [maxQueue]command
	Len      uint8
}

func (q *queue) push(c command) {
	q.Commands[q.Len] = c
	q.Len++
}

func (q *queue) remove(i uint8) command {
	c := q.Commands[i]
	copy(q.Commands[i:], q.Commands[i+1:])
	q.Len--
	q.Commands[q.Len] = command{}
	return c
}

// process is a client process, and the node that serves it while it is connected.
type process struct {
	// Next is the highest used number. Status has what the process knows of each number, GaveUp a bit for each number
	// that it has voided (X6 giving up).
	Next, GaveUp uint8
	Status       [1 + maxNumbers]status
	// First has, for each number, the acknowledgement at its first use: kept only without X3Newest.
	First [1 + maxNumbers]uint8
	// Connected, and the attachment. The rest is the node's: how much of State.Log it has applied, which leader its
	// stream leads to, the highest number that it has sent since it last went back, and a bit for each number with a
	// refusal in flight.
	Connected, Attachment        uint8
	Applied, Stream, Out, Refuse uint8
	// Leg is the way between them, in scopes in which nodes refuse writes (X8 admission of writes).
	Leg leg
}

// Where a stream leads to.
const (
	nowhere uint8 = iota
	leading
	deposed
)

// status is what a process knows of a write.
type status uint8

const (
	free status = iota
	pending
	hadEffect
	never
	unknownFate // the process never learns the outcome
)

// ghost is the oracle's notes.
type ghost struct {
	// Effects counts for each process and number how often the write took effect, at most 2. Last is the number of the
	// newest effect.
	Effects [processes][1 + maxNumbers]uint8
	Last    uint8
	// Holder is the process that has the session. Shared reports that not only A has had it.
	Holder, Shared uint8
}

// lowest returns the number of the lowest unanswered write, or the number after all of them.
func (p *process) lowest() uint8 {
	for n := uint8(1); n <= p.Next; n++ {
		if p.Status[n] == pending {
			return n
		}
	}
	return p.Next + 1
}

// acked is the number up to which the process has all its results (X1 numbered writes).
func (p *process) acked() uint8 { return p.lowest() - 1 }
