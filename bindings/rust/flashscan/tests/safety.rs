// SPDX-License-Identifier: Apache-2.0
//! What the safe interface promises: plans are shared by threads, wrong calls are refused by name.

use flashscan::*;

fn assert_send_sync<T: Send + Sync>(_: &T) {}

#[test]
fn plans_are_shared_by_threads() {
    let plan = Linear::<f64>::new(1, 100, 8).options(Options::new().threads(1)).build().unwrap();
    assert_send_sync(&plan);
    assert_send_sync(&Rnn::<f32>::new(Cell::Gru, 1, 1, 1, 1).build().unwrap());
    assert_send_sync(&Scan::<f32>::new(Operator::Add, 1, 1, 1).build().unwrap());
    let (gate, input) = (vec![0.5; 800], vec![1.0; 800]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut h = vec![0.0; 800];
                    plan.forward(LinearForward { gate: &gate, input: &input, output: &mut h, ..Default::default() })
                        .unwrap();
                    assert!((h[799] - 2.0).abs() < 1e-12);
                }
            });
        }
    });
}

#[test]
fn plans_are_refused_with_a_sentence() {
    let error = Linear::<f32>::new(2, 5, 3).packed(2).build().unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(sentence) if sentence.contains("batch is 2")), "{error}");
    assert_eq!(error.status(), flashscan_sys::FLASHSCAN_STATUS_INVALID_ARGUMENT);
    assert_eq!(error.to_string(), error.sentence());
    let error = Linear::<f32>::new(usize::MAX, 1, 1).build().unwrap_err();
    assert!(matches!(error, Error::SizeOverflow(_)), "{error}");
    let error = Linear::<f32>::new(1, 1, 1).gate_type::<f64>().build().unwrap_err();
    assert!(error.sentence().contains("gate_dtype"), "{error}");
    let error = Scan::<Complex<f32>>::new(Operator::Max, 1, 1, 1).build().unwrap_err();
    assert!(error.sentence().contains("max"), "{error}");
    let error =
        Scan::<f32>::new(Operator::Add, 1, 1, 1).options(Options::new().kernel("nonesuch")).build().unwrap_err();
    assert!(error.sentence().contains("nonesuch"), "{error}");
}

#[test]
fn slices_are_checked() {
    let plan = Linear::<f32>::new(1, 4, 1).build().unwrap();
    let (full, mut output) = ([0.5; 4], [7.0; 4]);
    let short =
        plan.forward(LinearForward { gate: &full, input: &full[1..], output: &mut output, ..Default::default() });
    assert!(matches!(&short, Err(Error::BufferTooSmall(sentence)) if sentence.contains("INPUT")), "{short:?}");
    let missing = plan.forward(LinearForward { gate: &full, output: &mut output, ..Default::default() });
    assert!(missing.unwrap_err().sentence().contains("INPUT"));
    let unknown = plan.forward(LinearForward {
        gate: &full,
        input: &full,
        output: &mut output,
        reset: Some(&[false; 4]),
        ..Default::default()
    });
    assert!(
        matches!(&unknown, Err(Error::UnknownArgument(sentence)) if sentence.contains("2006 (RESET)")),
        "{unknown:?}"
    );
    let offsets = Linear::<f32>::new(1, 4, 1).packed(1).build().unwrap().forward(LinearForward {
        gate: &full,
        input: &full,
        output: &mut output,
        seq_offsets: Some(&[0, 5]),
        ..Default::default()
    });
    assert!(matches!(&offsets, Err(Error::InvalidArgument(sentence)) if sentence.contains("5")), "{offsets:?}");
    assert_eq!(output, [7.0; 4]);
    let none = plan.backward(LinearBackward { gate: &full, grad_output: &full, ..Default::default() });
    assert!(none.is_err());
}

#[test]
fn networks_without_training_have_no_backward() {
    let plan = Rnn::<f32>::new(Cell::Lstm, 1, 1, 1, 1).build().unwrap();
    let (four, mut grad) = ([0.0; 4], [0.0; 4]);
    let args = RnnBackward {
        weight: &four,
        output: &four[..1],
        grad_output: &four[..1],
        grad_input: Some(&mut grad),
        ..Default::default()
    };
    assert!(matches!(plan.backward(args), Err(Error::InvalidArgument(_))));
    assert!(matches!(plan.arg_bytes(Pass::Forward, flashscan_sys::FLASHSCAN_ARG_GATE), Err(Error::UnknownArgument(_))));
}

#[test]
fn plans_of_a_gpu_take_no_slices() {
    if gpu_count().unwrap() == 0 {
        let error = Linear::<f32>::new(1, 1, 1).options(Options::new().cuda(0)).build().unwrap_err();
        assert!(matches!(error, Error::NoDevice(_) | Error::BackendMissing(_)), "{error}");
        return;
    }
    let plan = Linear::<f32>::new(1, 1, 1).options(Options::new().cuda(0)).build().unwrap();
    let refused = plan.forward(LinearForward { gate: &[0.5], input: &[1.0], output: &mut [0.0], ..Default::default() });
    assert!(matches!(refused, Err(Error::InvalidPointer(_))));
}

#[test]
fn strides_read_half_of_a_projection() {
    // [T, 2 C]: the gate is the first half of each step, the input the second.
    let projection = [0.5, 0.25, 1.0, 2.0, 0.5, 0.25, 1.0, 2.0f32];
    let half = Strides { batch: 0, time: 4, channels: 1 };
    let plan = Linear::<f32>::new(1, 2, 2).strides(half, half, Strides::default()).build().unwrap();
    let mut h = [0.0; 4];
    let args = LinearForward { gate: &projection[..6], input: &projection[2..], output: &mut h, ..Default::default() };
    plan.forward(args).unwrap();
    assert_eq!(h, [1.0, 2.0, 1.5, 2.5]);
}

#[test]
fn functions_scan_in_order() {
    // Strings of up to 8 letters do not commute.
    type Word = ([u8; 8], usize);
    let join = |l: &Word, r: &Word| {
        let mut joined = *l;
        joined.0[l.1..l.1 + r.1].copy_from_slice(&r.0[..r.1]);
        joined.1 += r.1;
        joined
    };
    let letters: Vec<Word> = b"operator".iter().map(|letter| ([*letter, 0, 0, 0, 0, 0, 0, 0], 1)).collect();
    let plan = CustomScan::new(1, 8, 1, join).mode(Mode::Reduction).build().unwrap();
    let mut word = [([0; 8], 0)];
    plan.forward(CustomForward { input: &letters, output: &mut word, ..Default::default() }).unwrap();
    assert_eq!(&word[0].0, b"operator");
    let plan = CustomScan::new(1, 8, 1, join).direction(Direction::Reverse).build().unwrap();
    let mut words = vec![([0; 8], 0); 8];
    plan.forward(CustomForward { input: &letters, output: &mut words, ..Default::default() }).unwrap();
    assert_eq!(&words[0].0, b"rotarepo");
    assert_eq!(&words[5].0[..3], b"rot");
}

#[test]
fn descriptions_name_the_kernel() {
    let plan =
        Linear::<f32>::new(1, 4, 1).options(Options::new().kernel("reference").batch_invariant()).build().unwrap();
    assert!(plan.describe().contains("kernel reference"), "{}", plan.describe());
    assert_eq!(version().0.to_string(), env!("CARGO_PKG_VERSION_MAJOR"));
}
