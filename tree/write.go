package tree

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of a [NumberedWrite].
const (
	// MaxPrincipals is the number of principals of a write, at most, MaxPrincipal the bytes of their schemes and ids
	// together (P1).
	MaxPrincipals = 16
	MaxPrincipal  = 1 << 10
	// MaxScheme is the length of a principal's scheme in bytes, at most.
	MaxScheme = 64
	// MaxUnanswered is the number of writes of a session that may be without an answer, MaxUnansweredBytes their bytes
	// (X1).
	MaxUnanswered      = 256
	MaxUnansweredBytes = 4 << 20
	// MaxAcknowledgements is the number of sessions in one acknowledgement (X3), MaxReap that of entries in one Reap (D5).
	MaxAcknowledgements = 1024
	MaxReap             = 1000
	// MaxReapWeight bounds the weight of one Reap, so that its removals take little of the time of an entry of the log.
	MaxReapWeight = MaxWeight / 10
)

// NumberedWrite is a write of a session (X1), as the log has it (W1).
type NumberedWrite struct {
	// Session is the session's id. Attachment is the one that the write's client process speaks for (W3).
	Session, Attachment uint64
	// Number counts the session's writes from 1. All results up to Acked are in hand.
	Number, Acked uint64
	// Void takes the number and does nothing else (X6). The fields below are then empty.
	Void bool
	// Principals are whom the session's node vouches for (P1).
	Principals []Principal
	// Transaction may be empty, if the write only sets a will.
	Transaction Transaction
	// Will replaces the session's will if the transaction takes effect. With nil the will stays.
	Will *Will
}

// Will is carried out when its session ends (U3).
type Will struct {
	// Transaction without any operation stands for no will.
	Transaction Transaction
	// OnClose carries the will out on a close too, and not on an expiry alone.
	OnClose bool
}

// WillFate is what became of a session's will when the session ended (U3).
type WillFate uint8

// The fates of wills; 0 if there was none.
const (
	// WillCarriedOut: all of it took effect.
	WillCarriedOut WillFate = 1 + iota
	// WillRefused: an operation was refused, so nothing took effect.
	WillRefused
	// WillDropped: the session was closed, and the will was for its expiry alone.
	WillDropped
)

// String returns the fate's name.
func (f WillFate) String() string {
	switch f {
	case 0:
		return "none"
	case WillCarriedOut:
		return "carried out"
	case WillRefused:
		return "refused"
	case WillDropped:
		return "dropped"
	default:
		return "unknown"
	}
}

// Acknowledgement says that a session has all results up to a number in hand (X3).
type Acknowledgement struct{ Session, UpTo uint64 }

// Check returns a [FieldError] unless every field of the write is within its bounds.
func (w NumberedWrite) Check() error {
	switch {
	case w.Session == 0:
		return wrong("session", "is 0: must be the id of a session")
	case w.Attachment == 0:
		return wrong("attachment", "is 0: must be 1 or more")
	case w.Number == 0:
		return wrong("number", "is 0: must be 1 or more")
	case w.Acked >= w.Number:
		return wrong("acked", "is %d: must be below the number, %d", w.Acked, w.Number)
	case w.Void && (len(w.Principals) > 0 || w.Transaction.parts() > 0 || w.Will != nil):
		return wrong("void", "takes a number and does nothing: must have no principals, operations or will")
	}
	if err := CheckPrincipals(w.Principals); err != nil {
		return err
	}
	if err := inField("transaction", w.Transaction.Check()); err != nil || w.Will == nil {
		return err
	}
	return CheckWill(w.Will.Transaction)
}

// CheckPrincipals returns a [FieldError] unless a write may have all these principals.
func CheckPrincipals(all []Principal) error {
	if len(all) > MaxPrincipals {
		return wrong("principals", "are %d: at most %d", len(all), MaxPrincipals)
	}
	size := 0
	for i, p := range all {
		if p.Scheme == "" || len(p.Scheme) > MaxScheme || !utf8.ValidString(p.Scheme) {
			return wrong(fmt.Sprintf("principals[%d].scheme", i), "is %q: must be 1 to %d bytes of UTF-8",
				shortened(p.Scheme), MaxScheme)
		}
		size += len(p.Scheme) + len(p.ID)
	}
	if size > MaxPrincipal {
		return wrong("principals", "have %d bytes: at most %d", size, MaxPrincipal)
	}
	return nil
}
