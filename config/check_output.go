package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"nightshift/internal/schema"
)

// outputs checks what the ladders ask of an answer, and reads the schemas, which
// hold from here on whatever becomes of their files.
func (c *checker) outputs(dir string) {
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Ladders)) {
		l := c.cfg.Ladders[name]
		p := path{"ladders", name, "output"}
		c.schema(p.child("schema"), dir, &l.Output)
		for i, expr := range l.Output.Deny {
			c.deny(p.child("deny").index(i), expr)
		}
		c.cfg.Ladders[name] = l
	}
}

// schema reads and compiles a ladder's schema. Its path starts at dir.
func (c *checker) schema(p path, dir string, o *Output) {
	if o.Schema == "" {
		return
	}
	if !filepath.IsAbs(o.Schema) {
		o.Schema = filepath.Join(dir, o.Schema)
	}
	text, err := readSchema(o.Schema)
	if err == nil {
		_, err = schema.Compile(text)
	}
	if err != nil {
		c.report(p, err.Error(), "")
		return
	}
	o.SchemaText = text
}

// readSchema reads a regular file: a pipe or a device could block for ever.
func readSchema(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", quoted(file))
	case err != nil:
		return nil, fmt.Errorf("the file %s cannot be read", quoted(file))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", quoted(file))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read", quoted(file))
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, schema.MaxText+1))
}

// deny checks a pattern of what no answer may hold.
func (c *checker) deny(p path, expr string) {
	re, err := regexp.Compile(expr)
	switch {
	case err != nil:
		c.report(p, oneLine(err), "write a regular expression of Go")
	case re.MatchString(""):
		c.report(p, "it matches every answer", "write what must not be in one")
	}
}
