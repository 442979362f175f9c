package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"nightshift/batch"
)

// TestFormatsPageNamesEveryField of a result, so that none is left unexplained.
func TestFormatsPageNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range jsonNames(reflect.TypeFor[batch.Result]()) {
		if !regexp.MustCompile("`[a-z_.]*\\b" + name + "`").Match(page) {
			t.Errorf("docs/formats.md lacks the field %s", name)
		}
	}
}

func jsonNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(append(names, name), jsonNames(t.Field(i).Type)...)
		}
	}
	return names
}
