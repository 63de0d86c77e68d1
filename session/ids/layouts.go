package ids

import (
	"fmt"
	"time"

	"holdfast/session"
)

// HoldfastLayout is the layout of [session.ID].
func HoldfastLayout() Layout {
	node := field("node", 56, 8, "number of the node that took the open")
	node.Min, node.Max = 1, uint64(session.MaxNode)
	return Layout{
		name: "holdfast", epoch: session.Epoch(), usual: Hex0x,
		fields: []Field{
			node,
			field(fieldMS, 16, 40, "milliseconds since 2026-01-01 UTC"),
			field("counter", 0, 16, "carries into the milliseconds"),
		},
	}
}

// Parts of ZooKeeper's ids.
const (
	zooKeeperShift = 56
	zooKeeperMS    = 40
	// ContainerMarker is the owner that ZooKeeper writes for a container node, which no session owns (I-30).
	ContainerMarker uint64 = 1 << 63
)

// ZooKeeperLayout is the layout of ZooKeeper's session ids (ZooKeeper spec, section 3.1). Their milliseconds are the
// low 40 bits of the server's clock at its start. Since 3.5 that is the elapsed clock, which on Linux counts from the
// machine's start. So Decode returns them as Elapsed, and adds a note with the wall-clock time that is right for
// servers before 3.5.
func ZooKeeperLayout() Layout {
	return Layout{
		name: "zookeeper", usual: Hex0x, notes: zooKeeperNotes,
		fields: []Field{
			// I-05: the number's higher bits are shifted out. I-10: the counter is never set back to 0.
			field("server", zooKeeperShift, 8, "number of the server modulo 256"),
			field(fieldMS, zooKeeperShift-zooKeeperMS, zooKeeperMS,
				"the server's clock when it started, its low 40 bits"),
			field("counter", 0, 16, "carries into the milliseconds"),
		},
	}
}

func zooKeeperNotes(id uint64) []string {
	switch id {
	case 0:
		return []string{"0 is no session"}
	case ContainerMarker:
		return []string{"marks a container, no session"}
	}
	// The bits of wall time above the 40th are not in the id. They were 1 from 2004 to 2039, all the time in which
	// ZooKeeper used wall time.
	ms := id>>(zooKeeperShift-zooKeeperMS)&(1<<zooKeeperMS-1) | 1<<zooKeeperMS
	notes := []string{"by a server before 3.5, which used wall time, that started at " +
		time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")}
	if id>>zooKeeperShift == 0xff { // I-31, I-14
		notes = append(notes, "of server 255 modulo 256, or the owner of a TTL node and no session")
		if id>>(zooKeeperShift-1)&1 == 1 {
			notes = append(
				notes, "by 3.4.5 or older, of any server: its shift copied bit 39 of the clock over the number "+
					"(ZOOKEEPER-1622)",
			)
		}
	}
	return notes
}

// ZooKeeperSeed returns the id from which ZooKeeper since 3.4.6 counts when server starts with its clock at ms (I-01).
// The first session gets the next id, each further session the id after (I-02).
func ZooKeeperSeed(server, ms int64) uint64 {
	seed := uint64(ms)<<24>>8 | uint64(server)<<zooKeeperShift
	if seed == ContainerMarker { // I-03
		seed++
	}
	return seed
}

// ZooKeeperSeedSigned is ZooKeeperSeed of ZooKeeper up to 3.4.5, with an arithmetic shift: while bit 39 of the clock is
// 1, ones replace the server's number (I-14, ZOOKEEPER-1622).
func ZooKeeperSeedSigned(server, ms int64) uint64 {
	return uint64(ms<<24>>8) | uint64(server)<<zooKeeperShift
}

// Parts of snowflakes: a 0, 41 bits of milliseconds, 5 + 5 bits of a machine's number, 12 bits of a sequence.
const (
	snowflakeMSShift         = 22
	snowflakeDatacenterShift = 17
	snowflakeWorkerShift     = 12
	snowflakeMachineBits     = 5
	snowflakeSequenceBits    = 12

	// MaxSnowflakeMS is the largest number of milliseconds that a snowflake holds: 69.7 years after its epoch.
	MaxSnowflakeMS = 1<<41 - 1
	// MaxMachine is the largest number of a datacenter, and of a worker in it.
	MaxMachine = 1<<snowflakeMachineBits - 1
	// MaxRollbackBits bounds the bits of the sequence that count rollbacks: 8 leave 16 ids a millisecond.
	MaxRollbackBits = 8
)

// TwitterEpoch is the moment from which Twitter's snowflakes count: 2010-11-04 01:42:54.657 UTC. They end on
// 2080-07-10.
func TwitterEpoch() time.Time { return time.UnixMilli(1288834974657).UTC() }

// SnowflakeLayout is the layout of Twitter's snowflakes, counted from epoch; the zero time means [TwitterEpoch]. If
// rollbackBits is not 0, that many high bits of the sequence are a field of their own: see [RollbackBits]. The error is
// a [session.FieldError] of epoch (it must be whole milliseconds, within 1970 to 2999) or of rollback_bits (0 to
// MaxRollbackBits).
func SnowflakeLayout(epoch time.Time, rollbackBits int) (Layout, error) {
	if epoch.IsZero() {
		epoch = TwitterEpoch()
	}
	epoch = epoch.UTC().Round(0)
	if !epoch.Equal(epoch.Truncate(time.Millisecond)) || epoch.Year() < 1970 || epoch.Year() > 2999 {
		return Layout{}, &session.FieldError{Field: "epoch", Limit: "whole milliseconds, 1970 to 2999"}
	}
	if rollbackBits < 0 || rollbackBits > MaxRollbackBits {
		return Layout{}, &session.FieldError{Field: "rollback_bits", Limit: fmt.Sprintf("0 to %d", MaxRollbackBits)}
	}
	sequence := snowflakeSequenceBits - uint(rollbackBits)
	fields := []Field{
		field(fieldMS, snowflakeMSShift, 41, "milliseconds since the epoch"),
		field("datacenter", snowflakeDatacenterShift, snowflakeMachineBits, "high part of the machine's number"),
		field("worker", snowflakeWorkerShift, snowflakeMachineBits, "low part of the machine's number"),
	}
	if rollbackBits > 0 {
		fields = append(
			fields, field("rollback", sequence, uint(rollbackBits), "how often the clock was set back, wraps"),
		)
	}
	fields = append(fields, field("sequence", 0, sequence, "ids of one machine in one millisecond"))
	return Layout{name: "snowflake", epoch: epoch, usual: Decimal, fields: fields}, nil
}
