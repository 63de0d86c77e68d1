package writers

import "fmt"

// MaxWill is the size of [Will.Data], at most: a will of 64 KiB (U3), what its form adds to 64 operations, and the
// principals of the write that set it (P1).
const MaxWill = 72 << 10

// resultOverhead counts with each result, in bytes: what the state takes to keep one, beyond its bytes.
const resultOverhead = 32

// Limits bound what is kept of writes (X3). They must be the same at all replicas, and for as long as the log lives:
// they decide which writes are refused.
//
// The results of all sessions have a room, and their wills have another one. No principal's sessions may take more of a
// room than they leave free: one principal gets half of it, each of two a third, and what is left is for those that come.
type Limits struct {
	// Results and Bytes bound the results of one session. A session that holds as many of either gets [Window].
	Results int
	Bytes   uint64
	// AllResults and AllWills are the rooms, in bytes. Once a principal's results are above its share, a session of it
	// that holds results of more than Spare bytes gets [Window], and no write of it is taken whose result may have more
	// than Large bytes. A will that is above the share is refused.
	AllResults, AllWills, Spare, Large uint64
}

// DefaultLimits returns the limits of X3.
func DefaultLimits() Limits {
	return Limits{
		Results: 256, Bytes: 64 << 10, AllResults: 128 << 20, AllWills: 128 << 20, Spare: 1 << 10, Large: 16 << 10,
	}
}

// SetLimits sets the limits of an empty table, or of a restored one before it takes its first write. What it has stays,
// also above them.
func (t *Table) SetLimits(l Limits) { t.limits = l }

// LimitError says which limit a will would exceed. The refusal is a result like any other: all replicas come to the
// same one (W2).
type LimitError struct {
	// Field names what is too large.
	Field string
	// Has is its size in bytes, and Most what there is room for.
	Has, Most uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s has %d bytes: at most %d are possible", e.Field, e.Has, e.Most)
}
