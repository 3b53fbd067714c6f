package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ollamoon/internal/wholefile"
)

// checkOut reports whether a results file can be written, before the run and not
// after it; an empty path is none.
func checkOut(path string) error {
	if path == "" {
		return nil
	}
	if err := wholefile.Check(path); err != nil {
		return fmt.Errorf("the results file: %w", err)
	}
	return nil
}

// ownPath is the path of this program, which a benchmark starts again in other
// parts.
func ownPath() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	return program, nil
}

// commandLine is how this program was started, for a results file.
func commandLine() string { return strings.Join(append([]string{"ollamoon"}, os.Args[1:]...), " ") }

// A resultFile is what a run has measured.
type resultFile interface {
	Write(path string) error
	JSON() ([]byte, error)
}

// tell writes a result to a file, if one is named, and prints it as JSON or by
// summarize.
func tell(cmd *cobra.Command, f resultFile, path string, asJSON bool, summarize func() error) error {
	if path != "" {
		if err := f.Write(path); err != nil {
			return err
		}
	}
	if !asJSON {
		return summarize()
	}
	data, err := f.JSON()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}
