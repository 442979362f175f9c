// Command gendoc writes docs/configuration.md from the types, tags and comments
// of package config, so that the page cannot say what the code does not do.
//
// Run it with go generate ./config; a test holds the page to its output.
package main

import (
	"fmt"
	"os"
)

// Where go generate runs it: in config/.
const (
	typesFile = "types.go"
	pageFile  = "../docs/configuration.md"
)

func main() {
	page, err := generate(typesFile)
	if err == nil {
		err = os.WriteFile(pageFile, page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc: error:", err)
		os.Exit(1)
	}
}
