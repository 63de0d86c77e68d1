package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// ballastName is the file that fills a disk.
	ballastName = "ballast"
	// ballastBlock is the size of one write to it, halved when the block no longer fits.
	ballastBlock = 1 << 20
	// lookBack is the size of one read in the search for the end of a file's data.
	lookBack = 4096
	// garbage is the value of damaged bytes.
	garbage = 0xa5
)

func runDisk(ctx context.Context, name string, args []string, out io.Writer) error {
	if name == "tear" {
		return runTear(args, out)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	leave := flags.Int64("leave", 0, "bytes that fill leaves free, about")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *leave < 0 {
		return errUsage
	}
	dir := flags.Arg(0)
	switch name {
	case "fill":
		size, err := fill(ctx, filepath.Join(dir, ballastName), *leave)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, size)
		return err
	case "free":
		return os.Remove(filepath.Join(dir, ballastName))
	default:
		return empty(dir)
	}
}

// fill writes to a file until the disk is full, or has no more than leave bytes free, and returns the file's size.
func fill(ctx context.Context, path string, leave int64) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := make([]byte, ballastBlock)
	for len(block) > 0 {
		if left, err := free(f); err != nil || leave > 0 && left <= leave {
			return size, err
		}
		n, err := f.Write(block)
		size += int64(n)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			return size, err
		case ctx.Err() != nil:
			return size, fmt.Errorf("the disk is not full after %d bytes: %w", size, ctx.Err())
		}
	}
	return size, nil
}

// free returns how many bytes are free on the disk of a file.
func free(f *os.File) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, nil //nolint:gosec // a disk's size
}

func runTear(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("tear", flag.ContinueOnError)
	garble := flags.Int64("garble", 0, "bytes at the end of what is written that become garbage")
	cutOff := flags.Int64("cut", 0, "bytes at the end of what is written that are cut off, with all that follows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *garble < 0 || *cutOff < 0 || *garble+*cutOff == 0 {
		return errUsage
	}
	f, err := os.OpenFile(flags.Arg(0), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	end, err := tear(f, *garble, *cutOff)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, end)
	return err
}

// tear damages the end of the data in f. It returns where that end was.
func tear(f *os.File, garble, cutOff int64) (end int64, err error) {
	if end, err = written(f); err != nil {
		return 0, err
	}
	if end < garble || end < cutOff {
		return 0, fmt.Errorf("tear: only %d bytes are written in %s", end, f.Name())
	}
	bad := make([]byte, garble)
	for i := range bad {
		bad[i] = garbage
	}
	if _, err := f.WriteAt(bad, end-garble); err != nil {
		return 0, err
	}
	if cutOff > 0 {
		if err := f.Truncate(end - cutOff); err != nil {
			return 0, err
		}
	}
	return end, f.Sync()
}

// written returns the end of the last block of f that is not all zero: files are extended ahead of their data.
func written(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	block := make([]byte, lookBack)
	for at := (info.Size() - 1) / lookBack * lookBack; at >= 0; at -= lookBack {
		n, err := f.ReadAt(block, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for _, b := range block[:n] {
			if b != 0 {
				return at + int64(n), nil
			}
		}
	}
	return 0, nil
}

// empty removes everything in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
