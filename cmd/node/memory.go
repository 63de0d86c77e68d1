package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"holdfast/node/health"
)

// unlimitedGroup is above every limit of a control group that is meant: version 1 writes "no limit" as a number near
// 1<<63.
const unlimitedGroup = 1 << 60

// limitMemory sets a memory limit for the Go runtime, and returns it. The limit is the first of these: GOMEMLIMIT,
// which the runtime applies itself, the setting, nine tenths of the control group's limit, three quarters of the
// machine's memory. The rest is for memory that the runtime does not count: the pages of raft.db that bbolt maps, and
// threads; on a machine also for other programs. files is the root directory.
func limitMemory(setting uint64, environ []string, files fs.FS) (health.Memory, error) {
	named := slices.ContainsFunc(environ, func(v string) bool {
		value, ok := strings.CutPrefix(v, "GOMEMLIMIT=")
		return ok && value != ""
	})
	if named {
		if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
			return health.Memory{Limit: uint64(limit), From: health.MemoryFromEnvironment}, nil
		}
		return health.Memory{From: health.MemoryUnlimited}, nil
	}
	memory := health.Memory{Limit: setting, From: health.MemoryFromSetting}
	if setting == 0 {
		group, err := groupLimit(files)
		if err != nil {
			return health.Memory{}, err
		}
		memory = health.Memory{Limit: group / 10 * 9, From: health.MemoryFromGroup}
		if group == 0 {
			machine, err := machineMemory(files)
			if err != nil || machine == 0 {
				return health.Memory{From: health.MemoryUnlimited}, err
			}
			memory = health.Memory{Limit: machine / 4 * 3, From: health.MemoryFromMachine}
		}
	}
	debug.SetMemoryLimit(int64(memory.Limit)) //nolint:gosec // at most 1<<60
	return memory, nil
}

// machineMemory returns the memory of the machine in bytes, 0 if the system does not report it.
func machineMemory(files fs.FS) (uint64, error) {
	text, err := fs.ReadFile(files, "proc/meminfo")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // not Linux
	} else if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "MemTotal" {
			continue
		}
		kB, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 40)
		if err != nil {
			return 0, fmt.Errorf("proc/meminfo: %w", err)
		}
		return kB << 10, nil
	}
	return 0, nil
}

// groupLimit returns the least limit of the process's control group and the groups around it, in bytes, 0 for none. It
// reads both versions of control groups. In a container the own group is often mounted at the top.
func groupLimit(files fs.FS) (uint64, error) {
	text, err := fs.ReadFile(files, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // not Linux
	} else if err != nil {
		return 0, err
	}
	least := uint64(0)
	for line := range strings.Lines(string(text)) {
		top, group, name := hierarchy(strings.TrimSpace(line))
		for _, one := range upwards(group) {
			limit, err := limitIn(files, path.Join(top, one, name))
			if err != nil {
				return 0, err
			}
			if limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
		}
	}
	return least, nil
}

// upwards returns a group and all groups around it; none for an empty group.
func upwards(group string) (all []string) {
	for ; group != "" && group != "/"; group = path.Dir(group) {
		all = append(all, group)
	}
	if group == "/" {
		all = append(all, group)
	}
	return all
}

// hierarchy returns, for a line of /proc/self/cgroup, where its groups are mounted, the process's group, and the name
// of the file with a group's limit of memory. The group is empty for a line without one.
func hierarchy(line string) (top, group, name string) {
	part := strings.SplitN(line, ":", 3)
	switch {
	case len(part) != 3:
		return "", "", ""
	case part[0] == "0": // version 2
		return "sys/fs/cgroup", path.Clean("/" + part[2]), "memory.max"
	case slices.Contains(strings.Split(part[1], ","), "memory"):
		return "sys/fs/cgroup/memory", path.Clean("/" + part[2]), "memory.limit_in_bytes"
	default:
		return "", "", ""
	}
}

// limitIn returns the limit in a file of a control group, 0 for none.
func limitIn(files fs.FS, file string) (uint64, error) {
	text, err := fs.ReadFile(files, file)
	if errors.Is(err, fs.ErrNotExist) { // the top has none, nor has a group that is mounted elsewhere
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, nil
	}
	limit, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, errors.New(file + ": limit " + strconv.Quote(word) + ": must be a number or max")
	}
	if limit >= unlimitedGroup {
		return 0, nil
	}
	return limit, nil
}
