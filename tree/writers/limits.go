package writers

import "fmt"

// MaxWill is the largest size of [Will.Data]: a will of 64 KiB (U3 wills), the overhead of the form for 64 operations,
// and the principals of the write that set the will (P1 principals).
const MaxWill = 72 << 10

// resultOverhead is the memory that each result costs beyond its bytes.
const resultOverhead = 32

// Limits bound the kept results and wills (X3 kept results). They decide which writes are refused, so they must be the
// same at all replicas for as long as the log lives.
//
// Two budgets exist for all sessions: one for results, one for wills. The sessions of one principal may use at most as
// much of a budget as they leave free: a single principal gets a half, each of two principals a third, and the rest
// stays free for newcomers.
type Limits struct {
	// Results and Bytes bound the results of one session. A session at one of these bounds gets [Window].
	Results int
	Bytes   uint64
	// AllResults and AllWills are the budgets, in bytes. When a principal's results exceed its share, each session of
	// the principal with results of more than Spare bytes gets [Window], and the principal's writes with a possible
	// result of more than Large bytes are refused. A will above the share is refused.
	AllResults, AllWills, Spare, Large uint64
}

// DefaultLimits returns the limits of X3.
func DefaultLimits() Limits {
	return Limits{
		Results: 256, Bytes: 64 << 10, AllResults: 128 << 20, AllWills: 128 << 20, Spare: 1 << 10, Large: 16 << 10,
	}
}

// SetLimits sets the limits of an empty table, or of a restored table before its first write. Existing results and
// wills stay, even above the limits.
func (t *Table) SetLimits(l Limits) { t.limits = l }

// LimitError names the limit that a will would exceed. The refusal is a result: all replicas compute the same one (W2
// the state decides).
type LimitError struct {
	// Field names the value that is too large.
	Field string
	// Has is the size of the value in bytes, and Max the largest size that fits.
	Has, Max uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s has %d bytes: at most %d are possible", e.Field, e.Has, e.Max)
}
