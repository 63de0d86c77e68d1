package jute

import (
	"fmt"
	"maps"
	"slices"
)

// Op is the kind of a request.
type Op int32

// The operations of a client (N-16.4).
const (
	Notification      Op = 0
	Create            Op = 1
	Delete            Op = 2
	Exists            Op = 3
	GetData           Op = 4
	SetData           Op = 5
	GetACL            Op = 6
	SetACL            Op = 7
	GetChildren       Op = 8
	Sync              Op = 9
	Ping              Op = 11
	GetChildren2      Op = 12
	Check             Op = 13
	Multi             Op = 14
	Create2           Op = 15
	Reconfig          Op = 16
	CheckWatches      Op = 17
	RemoveWatches     Op = 18
	CreateContainer   Op = 19
	DeleteContainer   Op = 20
	CreateTTL         Op = 21
	MultiRead         Op = 22
	Auth              Op = 100
	SetWatches        Op = 101
	SASL              Op = 102
	GetEphemerals     Op = 103
	GetChildrenNumber Op = 104
	SetWatches2       Op = 105
	AddWatch          Op = 106
	WhoAmI            Op = 107
	CreateSession     Op = -10
	CloseSession      Op = -11
	opError           Op = -1 // an element of a multi's reply
)

//nolint:gochecknoglobals // a table
var opNames = map[Op]string{
	Create: "create", Delete: "delete", Exists: "exists", GetData: "getData", SetData: "setData", GetACL: "getACL",
	SetACL: "setACL", GetChildren: "getChildren", Sync: "sync", Ping: "ping", GetChildren2: "getChildren2",
	Check: "check", Multi: "multi", Create2: "create2", Reconfig: "reconfig", CheckWatches: "checkWatches",
	RemoveWatches: "removeWatches", CreateContainer: "createContainer", DeleteContainer: "deleteContainer",
	CreateTTL: "createTTL", MultiRead: "multiRead", Auth: "auth", SetWatches: "setWatches", SASL: "sasl",
	GetEphemerals: "getEphemerals", GetChildrenNumber: "getAllChildrenNumber", SetWatches2: "setWatches2",
	AddWatch: "addWatch", WhoAmI: "whoAmI", CreateSession: "createSession", CloseSession: "closeSession",
}

// Ops returns all operations of the protocol.
func Ops() []Op { return slices.Sorted(maps.Keys(opNames)) }

// String returns the operation's name.
func (o Op) String() string {
	if name := opNames[o]; name != "" {
		return name
	}
	return fmt.Sprintf("operation %d", int32(o))
}

// Operation codes (N-15).
const (
	EventXid   = -1
	PingXid    = -2
	AuthXid    = -4
	WatchesXid = -8
)

// Code is the outcome of a request.
type Code int32

// The codes that a server sends (N-16.6).
const (
	OK                  Code = 0
	RuntimeInconsistent Code = -2
	MarshallingError    Code = -5
	Unimplemented       Code = -6
	OperationTimeout    Code = -7
	BadArguments        Code = -8
	NoNode              Code = -101
	NoAuth              Code = -102
	BadVersion          Code = -103
	EphemeralParent     Code = -108
	NodeExists          Code = -110
	NotEmpty            Code = -111
	SessionExpired      Code = -112
	InvalidACL          Code = -114
	AuthFailed          Code = -115
	NotReadOnly         Code = -119
	NoWatcher           Code = -121
	ReconfigDisabled    Code = -123
	QuotaExceeded       Code = -125
	Throttled           Code = -127
)

// Flags of a create (N-20).
const (
	Persistent              = 0
	Ephemeral               = 1
	PersistentSequential    = 2
	EphemeralSequential     = 3
	Container               = 4
	PersistentTTL           = 5
	PersistentSequentialTTL = 6
)

// Types of a watcher in a removal (N-22), and modes of an added watch.
const (
	ChildrenWatcher  = 1
	DataWatcher      = 2
	AnyWatcher       = 3
	PersistentWatch  = 4
	RecursiveWatch   = 5
	ModePersistent   = 0
	ModeRecursive    = 1
	StateConnected   = 3
	EventCreated     = 1
	EventDeleted     = 2
	EventDataChanged = 3
	EventChildren    = 4
)
