package tree

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of a [NumberedWrite].
const (
	// MaxPrincipals is the largest number of principals of a write, MaxPrincipal the most bytes of their schemes and
	// ids together (P1 principals).
	MaxPrincipals = 16
	MaxPrincipal  = 1 << 10
	// MaxScheme is the largest length of a principal's scheme in bytes.
	MaxScheme = 64
	// MaxUnanswered is the largest number of unanswered writes of a session, MaxUnansweredBytes the most bytes of these
	// writes (X1 numbered writes).
	MaxUnanswered      = 256
	MaxUnansweredBytes = 4 << 20
	// MaxAcknowledgements is the largest number of sessions in one acknowledgement (X3 kept results), MaxReap the
	// largest number of entries in one Reap (D5 TTLs and containers).
	MaxAcknowledgements = 1024
	MaxReap             = 1000
	// MaxReapWeight bounds the weight of one Reap: the removals use a small part of a log entry.
	MaxReapWeight = MaxWeight / 10
)

// NumberedWrite is a write of a session (X1) in the form of the log (W1 path of a write).
type NumberedWrite struct {
	// Session is the session's id. Attachment is the attachment that the client process had when it wrote (W3
	// attachment check).
	Session, Attachment uint64
	// Number counts the session's writes from 1. Acked says that the client has all results up to this number.
	Number, Acked uint64
	// ReadsBefore says that reads of the session came between its previous write and this one. The session's node answers
	// them from the tree before this write (G3 order in a session).
	ReadsBefore bool
	// Void uses up the number and has no other effect (X6 giving up). The fields below are then empty.
	Void bool
	// Principals are the principals that the session's node has verified (P1).
	Principals []Principal
	// Transaction may be empty if the write only sets a will.
	Transaction Transaction
	// Will replaces the session's will if the transaction takes effect; nil leaves the will unchanged.
	Will *Will
}

// Will is a transaction that the state carries out when the session ends (U3 wills).
type Will struct {
	// A Transaction without operations means no will.
	Transaction Transaction
	// OnClose carries the will out on a close too, and not only on an expiry.
	OnClose bool
}

// WillFate is the fate of a session's will at the end of the session (U3).
type WillFate uint8

// The fates of wills; 0 without a will.
const (
	// WillCarriedOut: all operations took effect.
	WillCarriedOut WillFate = 1 + iota
	// WillRefused: an operation was refused, so no operation took effect.
	WillRefused
	// WillDropped: the session was closed, and the will was only for its expiry.
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

// Acknowledgement says that a session's client has all results up to a number (X3).
type Acknowledgement struct{ Session, UpTo uint64 }

// Check returns a [FieldError] if a field of the write is out of its bounds.
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

// CheckPrincipals returns a [FieldError] if a write may not have these principals.
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
