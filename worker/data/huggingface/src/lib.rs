//! The C interface to Hugging Face's tokenizers, and to what renders chat templates. Contracts:
//! swarm_huggingface.h.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use mimalloc::MiMalloc;
use minijinja::{Environment, Error, ErrorKind};
use tokenizers::Tokenizer;

/// Of this library alone: what it gives, it takes back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

pub struct Handle {
    tokenizer: Tokenizer,
    vocabulary: u32,
}

/// What a word is made of is kept for as many distinct ones, by the models that keep it. A large
/// corpus has more than the library's own 10,000.
const CACHED_WORDS: usize = 1 << 17;

#[repr(C)]
pub struct View {
    data: *const u8,
    size: usize,
}

/// A buffer that Rust allocated, and that only Rust may free.
#[repr(C)]
pub struct Text {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

#[repr(i32)]
#[derive(Clone, Copy)]
pub enum Code {
    Ok = 0,
    NotUtf8 = 1,
    Refused = 2,
    Panicked = 3,
}

struct Failure(Code, String);

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(Code::Refused, error.to_string())
    }
}

fn give<T>(items: Vec<T>) -> (*mut T, usize) {
    let size = items.len();
    (Box::into_raw(items.into_boxed_slice()).cast(), size)
}

unsafe fn take<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

/// C++ and Rust disagree about the address of nothing.
unsafe fn items<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

unsafe fn text_of<'a>(view: &View) -> Result<&'a str, Failure> {
    std::str::from_utf8(items(view.data, view.size))
        .map_err(|error| Failure(Code::NotUtf8, error.to_string()))
}

fn message_of(panic: Box<dyn Any + Send>) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text.to_string(),
        (_, Some(text)) => text.clone(),
        _ => "without a message".to_string(),
    }
}

/// No panic may cross into C++. Handles are never changed after they are made, so none is left
/// half-changed.
unsafe fn guard(error: *mut Text, call: impl FnOnce() -> Result<(), Failure>) -> Code {
    let result = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Failure(Code::Panicked, message_of(panic))));
    match result {
        Ok(()) => Code::Ok,
        Err(Failure(code, message)) => {
            let (data, size) = give(message.into_bytes());
            *error = Text { data, size };
            code
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_open(
    json: View,
    handle: *mut *const Handle,
    error: *mut Text,
) -> Code {
    guard(error, || {
        let mut tokenizer: Tokenizer = text_of(&json)?.parse()?;
        tokenizer.with_truncation(None)?;
        tokenizer.with_padding(None);
        let mut model = tokenizer.get_model().clone();
        model.resize_cache(CACHED_WORDS);
        tokenizer.with_model(model);
        let highest = tokenizer.get_vocab(true).into_values().max();
        let vocabulary = highest.map_or(0, |id| id + 1);
        *handle = Box::into_raw(Box::new(Handle { tokenizer, vocabulary }));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_close(handle: *const Handle) {
    if !handle.is_null() {
        drop(Box::from_raw(handle.cast_mut()));
    }
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_vocabulary(handle: *const Handle) -> u32 {
    (*handle).vocabulary
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_id_of(handle: *const Handle, token: View) -> i64 {
    let find = || (*handle).tokenizer.token_to_id(text_of(&token).ok()?);
    catch_unwind(AssertUnwindSafe(find)).ok().flatten().map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_encode(
    handle: *const Handle,
    texts: *const View,
    count: usize,
    ids: *mut Ids,
    lengths: *mut usize,
    error: *mut Text,
) -> Code {
    guard(error, || {
        let tokenizer = &(*handle).tokenizer;
        let texts = items(texts, count).iter().map(|text| text_of(text));
        let texts = texts.collect::<Result<Vec<&str>, Failure>>()?;
        let encodings = match texts[..] {
            [text] => vec![tokenizer.encode_fast(text, false)?],
            _ => tokenizer.encode_batch_fast(texts, false)?,
        };
        let mut all = Vec::with_capacity(encodings.iter().map(|e| e.len()).sum());
        for (i, encoding) in encodings.iter().enumerate() {
            all.extend_from_slice(encoding.get_ids());
            *lengths.add(i) = encoding.len();
        }
        let (data, size) = give(all);
        *ids = Ids { data, size };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_decode(
    handle: *const Handle,
    ids: *const u32,
    count: usize,
    text: *mut Text,
    error: *mut Text,
) -> Code {
    guard(error, || {
        let decoded = (*handle).tokenizer.decode(items(ids, count), true)?;
        let (data, size) = give(decoded.into_bytes());
        *text = Text { data, size };
        Ok(())
    })
}

const CHAT: &str = "chat template";

pub struct Template {
    environment: Environment<'static>, // with a template of the name CHAT
}

/// Set up as transformers does with jinja2, without the sandbox: minijinja has no access to anything.
fn compile(source: &str) -> Result<Template, Failure> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: &str| -> Result<String, Error> {
        use std::fmt::Write;
        let mut text = String::new();
        write!(text, "{}", chrono::Local::now().format(format))
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "strftime_now: a bad format"))?;
        Ok(text)
    });
    // Marks for training what the model said; they show nothing.
    let mut source = source.to_string();
    for mark in ["{% generation %}", "{%- generation %}", "{%- generation -%}", "{% generation -%}"] {
        source = source.replace(mark, &mark.replace("generation", "if true"));
        let end = mark.replace("generation", "endgeneration");
        source = source.replace(&end, &end.replace("endgeneration", "endif"));
    }
    environment.add_template_owned(CHAT, source)?;
    Ok(Template { environment })
}

fn render(template: &Template, variables: &str) -> Result<String, Failure> {
    let variables: serde_json::Value = serde_json::from_str(variables)?;
    Ok(template.environment.get_template(CHAT)?.render(variables)?)
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_compile(
    source: View,
    template: *mut *const Template,
    error: *mut Text,
) -> Code {
    guard(error, || {
        *template = Box::into_raw(Box::new(compile(text_of(&source)?)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_close_template(template: *const Template) {
    if !template.is_null() {
        drop(Box::from_raw(template.cast_mut()));
    }
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_render(
    template: *const Template,
    variables: View,
    text: *mut Text,
    error: *mut Text,
) -> Code {
    guard(error, || {
        let rendered = render(&*template, text_of(&variables)?)?;
        let (data, size) = give(rendered.into_bytes());
        *text = Text { data, size };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_free_text(text: Text) {
    take(text.data, text.size);
}

#[no_mangle]
pub unsafe extern "C" fn swarm_huggingface_free_ids(ids: Ids) {
    take(ids.data, ids.size);
}
