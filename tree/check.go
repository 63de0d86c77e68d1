package tree

import "fmt"

// Bounds of a will (U3 wills).
const (
	// MaxWillOps is the number of operations and conditions of a will, at most.
	MaxWillOps = 64
	// MaxWill is the size of a will in bytes, at most, as [Transaction.Size] counts them.
	MaxWill = 64 << 10
)

// Check returns a [FieldError] if the state cannot carry the transaction out: if it has more than [MaxOps] conditions
// and operations, or more than [MaxRequest] bytes, or a field out of bounds. Check does not read the tree.
func (x Transaction) Check() error {
	if n := x.parts(); n > MaxOps {
		return wrong("transaction", "has %d conditions and operations: at most %d", n, MaxOps)
	}
	if size := x.Size(); size > MaxRequest {
		return wrong("transaction", "has %d bytes: at most %d", size, MaxRequest)
	}
	for i, c := range x.If {
		if err := c.check(); err != nil {
			return inField(fmt.Sprintf("if[%d]", i), err)
		}
	}
	for _, branch := range [...]struct {
		name string
		ops  []Op
	}{{"then", x.Then}, {"else", x.Else}} {
		for i, op := range branch.ops {
			if err := CheckOp(op); err != nil {
				return inField(fmt.Sprintf("%s[%d]", branch.name, i), err)
			}
		}
	}
	return nil
}

// CheckWill returns a [FieldError] if the transaction may not be a will (U3): more than [MaxWillOps] operations and
// conditions, more than [MaxWill] bytes, or an ephemeral, which would have no owner.
func CheckWill(x Transaction) error {
	if n := x.parts(); n > MaxWillOps {
		return wrong("will", "has %d conditions and operations: at most %d", n, MaxWillOps)
	}
	if size := x.Size(); size > MaxWill {
		return wrong("will", "has %d bytes: at most %d", size, MaxWill)
	}
	for _, ops := range [...][]Op{x.Then, x.Else} {
		for _, op := range ops {
			if c, ok := op.(Create); ok && c.Kind == Ephemeral {
				return wrong("will", "creates the ephemeral %s: its session will have ended", shortened(c.Path))
			}
		}
	}
	return inField("will", x.Check())
}

// parts counts conditions and operations.
func (x Transaction) parts() int { return len(x.If) + len(x.Then) + len(x.Else) }

func (c Condition) check() error {
	switch {
	case c.Property < Exists || c.Property > ChildCount:
		return wrong("property", "is %d: must be %d to %d", c.Property, Exists, ChildCount)
	case c.Is < Equal || c.Is > Greater:
		return wrong("is", "is %d: must be %d to %d", c.Is, Equal, Greater)
	}
	return inField("path", CheckPath(c.Path))
}

// CheckOp returns a [FieldError] if a field of an operation is out of bounds.
func CheckOp(op Op) error {
	if op == nil {
		return wrong("op", "is missing: must be an operation of this package")
	}
	return op.check()
}

func (s Set) check() error { return checkPathAndVersion(s.Path, s.Version) }

func (d Delete) check() error { return checkPathAndVersion(d.Path, d.Version) }

func (d DeleteTree) check() error { return checkPathAndVersion(d.Path, Any) }

func (c Check) check() error { return checkPathAndVersion(c.Path, c.Version) }

func (s SetACL) check() error {
	if err := checkPathAndVersion(s.Path, s.Version); err != nil {
		return err
	}
	return inField("acl", s.ACL.Check())
}

func checkPathAndVersion(path string, version int64) error {
	if version < Any || version > MaxVersion {
		return wrong("version", "is %d: must be 0 to %d, or %d for any", version, int64(MaxVersion), Any)
	}
	return inField("path", CheckPath(path))
}

func (c Create) check() error {
	path := CheckPath
	if c.Sequential {
		path = CheckPrefix
	}
	if err := path(c.Path); err != nil {
		return inField("path", err)
	}
	switch {
	case c.Kind < Persistent || c.Kind > Expiring:
		return wrong("kind", "is %d: must be %d to %d", c.Kind, Persistent, Expiring)
	case c.Kind != Expiring && c.TTL != 0:
		return wrong("ttl", "is %v: only an expiring entry has one", c.TTL)
	case c.Kind != Ephemeral && c.LockDelay != 0:
		return wrong("lock_delay", "is %v: only an ephemeral has one", c.LockDelay)
	}
	if c.Kind == Expiring {
		if err := checkMillis("ttl", c.TTL, MinTTL, MaxTTL); err != nil {
			return err
		}
	}
	if err := checkMillis("lock_delay", c.LockDelay, 0, MaxLockDelay); err != nil {
		return err
	}
	return inField("acl", c.ACL.Check())
}
