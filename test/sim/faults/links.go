package faults

import (
	"fmt"
	"strings"
	"time"
)

// mostDelay is the longest delay of LagFromClient and LagToClient. With the scatter of reordering it stays below 3 s:
// the checker allows requests this time in flight when a fault ends.
const mostDelay = 2 * time.Second

// beginLinks slows or cuts links between one caller and nodes, in one direction. The other direction stays as it was.
func beginLinks(f Fault, c Cluster, nodes []string) *broken {
	callers := c.Callers()
	one, all := callers[int(f.Caller*float64(len(callers)))], strings.Join(nodes, " ")
	there, back := oneWay([]string{one}, nodes), oneWay(nodes, []string{one})
	late := slowness{more: time.Duration(f.Size * float64(mostDelay))}
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case LagFromClient:
		return slow(c, one, fmt.Sprintf("delay what %s sends to %s by %v", one, all, late.more), late, there)
	case LagToClient:
		return slow(c, one, fmt.Sprintf("delay messages to %s from %s by %v", one, all, late.more), late, back)
	case ReorderFromClient:
		return slow(c, one, fmt.Sprintf("scatter what %s sends to %s by up to %v", one, all, f.scatter().scatter),
			f.scatter(), there)
	case ReorderToClient:
		return slow(c, one, fmt.Sprintf("scatter messages to %s from %s by up to %v", one, all, f.scatter().scatter),
			f.scatter(), back)
	case MuteClient:
		return cut(c, one, "make "+one+" mute to "+all, there)
	default:
		return cut(c, one, "make "+one+" deaf to "+all, back)
	}
}
