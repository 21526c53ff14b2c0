//! The waPC protocol: how the host hands bytes to the module, and takes bytes from it.
//!
//! By hand, since the guest library keeps its functions in a locked hash map that is seeded at random: more code than
//! the three functions of a policy are worth. It is the same protocol (<https://wapc.io/docs/spec/>).
#![allow(unsafe_code, reason = "the host works on the guest's memory")]

#[link(wasm_import_module = "wapc")]
unsafe extern "C" {
    /// Writes the name of the function and the payload, as long as `__guest_call` was told.
    fn __guest_request(operation: *mut u8, payload: *mut u8);
    /// Takes the answer of `__guest_call`.
    fn __guest_response(answer: *const u8, length: usize);
    /// Takes the reason why there is no answer.
    fn __guest_error(text: *const u8, length: usize);
    /// Asks the host; 1 where it has an answer, which waits until it is fetched.
    fn __host_call(
        binding: *const u8,
        binding_length: usize,
        namespace: *const u8,
        namespace_length: usize,
        operation: *const u8,
        operation_length: usize,
        payload: *const u8,
        payload_length: usize,
    ) -> usize;
    safe fn __host_response_len() -> usize;
    /// Writes the answer, as long as `__host_response_len` says.
    fn __host_response(answer: *mut u8);
    safe fn __host_error_len() -> usize;
    /// Writes the error, as long as `__host_error_len` says.
    fn __host_error(text: *mut u8);
}

/// Called by the host for every function of the policy; 1 where there is an answer.
// Native tests link the SDK, and with it another function of this name.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn __guest_call(operation_length: usize, payload_length: usize) -> i32 {
    // SAFETY: nothing was allocated yet in this call, and of earlier ones nothing is left: hosts copy answers before
    // `__guest_call` returns, and the statics of the module are constants.
    unsafe { crate::runtime::begin() };
    let mut operation: Vec<u8> = Vec::with_capacity(operation_length);
    let mut payload: Vec<u8> = Vec::with_capacity(payload_length);
    // SAFETY: both buffers have room for the lengths that the host has just announced, nothing else points at them, and
    // the host writes every byte.
    unsafe {
        __guest_request(operation.as_mut_ptr(), payload.as_mut_ptr());
        operation.set_len(operation_length);
        payload.set_len(payload_length);
    }
    if let Some(answer) = crate::call(&operation, payload) {
        // SAFETY: the host copies this many bytes before it returns.
        unsafe { __guest_response(answer.as_ptr(), answer.len()) };
        1
    } else {
        const UNKNOWN: &str = "the policy has no such function";
        // SAFETY: as above.
        unsafe { __guest_error(UNKNOWN.as_ptr(), UNKNOWN.len()) };
        0
    }
}

/// Calls `operation` of the host's `namespace`; the error is the host's text.
pub fn host_call(namespace: &str, operation: &str, payload: &str) -> Result<Vec<u8>, Vec<u8>> {
    const BINDING: &str = "kubewarden";
    // SAFETY: each pointer comes with the length of what it points at; the host only reads.
    let result = unsafe {
        __host_call(
            BINDING.as_ptr(),
            BINDING.len(),
            namespace.as_ptr(),
            namespace.len(),
            operation.as_ptr(),
            operation.len(),
            payload.as_ptr(),
            payload.len(),
        )
    };
    if result == 1 {
        let length = __host_response_len();
        let mut answer = Vec::with_capacity(length);
        // SAFETY: the buffer has room for the length that the host has just given, and the host writes every byte.
        unsafe {
            __host_response(answer.as_mut_ptr());
            answer.set_len(length);
        }
        Ok(answer)
    } else {
        let mut text = vec![0; __host_error_len()];
        // SAFETY: as above.
        unsafe { __host_error(text.as_mut_ptr()) };
        Err(text)
    }
}
