package hardening

import "reflect"

// deepCopy is by reflection, so that a field that a later version of the
// runtime specification adds cannot be shared with the caller's value. A trip
// through JSON would be shorter, but is slower, and turns empty into absent.
func deepCopy[T any](v *T) *T {
	out := new(T)
	copyInto(reflect.ValueOf(out).Elem(), reflect.ValueOf(v).Elem())
	return out
}

func copyInto(dst, src reflect.Value) {
	switch src.Kind() { //nolint:exhaustive // every other kind holds no reference
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if !src.IsNil() {
			copyReference(dst, src)
		}
	case reflect.Struct:
		for i := range src.NumField() {
			copyInto(dst.Field(i), src.Field(i))
		}
	default:
		// An interface too: the only one, windows.credentialSpec, is refused.
		dst.Set(src)
	}
}

func copyReference(dst, src reflect.Value) {
	switch src.Kind() { //nolint:exhaustive // only called with these
	case reflect.Pointer:
		dst.Set(reflect.New(src.Type().Elem()))
		copyInto(dst.Elem(), src.Elem())
	case reflect.Slice:
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			copyInto(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		for key, value := range src.Seq2() {
			held := reflect.New(src.Type().Elem()).Elem()
			copyInto(held, value)
			dst.SetMapIndex(key, held)
		}
	}
}
