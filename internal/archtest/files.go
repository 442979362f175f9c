package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A rule returns the problems of the tree at root, one line each.
type rule func(root string) ([]string, error)

// files returns the files of the tree, relative to root and with slashes. It
// leaves out what is not ours to judge: version control, built files, fixtures
// and modules of their own.
func files(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && foreign(name, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		found = append(found, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk %s: %w", root, err)
	}
	return found, nil
}

func foreign(dir, base string) bool {
	switch base {
	case ".git", "bin", "node_modules", "testdata":
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// A source is one parsed Go file.
type source struct {
	name string // relative to root
	test bool
	file *ast.File
	fset *token.FileSet
}

// dir is the source's package as a path in the module: "." for the root.
func (s source) dir() string { return path.Dir(s.name) }

// at is the place of a node, for a problem's text.
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(n.Pos()).Line)
}

// generated tells whether a tool wrote the file.
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// sources parses every Go file of the tree.
func sources(root string) ([]source, error) {
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	var all []source
	for _, name := range names {
		if path.Ext(name) != ".go" {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		all = append(all, source{name: name, test: strings.HasSuffix(name, "_test.go"), file: f, fset: fset})
	}
	return all, nil
}
