//! dedup: what it writes decompresses to the input, is the same for every number of threads, and is
//! refused when it is not whole.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ullage_pipelines::chunking::Chunking;
use ullage_pipelines::corpus::{Corpus, Pieces, Plan};
use ullage_pipelines::dedup::container::{Codec, Writer, read};
use ullage_pipelines::dedup::reference::{Reference, unpack};
use ullage_pipelines::dedup::{Options, pack, run};
use ullage_pipelines::source::Source;
use ullage_pipelines::{digest, manifest};

const PLAN: Plan = Plan {
    size: 2_900_001,
    duplicates: 0.5,
    compressible: 0.5,
    seed: 11,
};

fn content(plan: Plan) -> Vec<u8> {
    Pieces::new(plan).flat_map(|piece| piece.bytes).collect()
}

fn unpacked(container: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    read(container, &mut content)?;
    Ok(content)
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 1..5000);
    (noise, 1usize..12).prop_map(|(part, times)| part.repeat(times))
}

fn any_chunking() -> impl Strategy<Value = Chunking> {
    prop_oneof![Just(Chunking::Rabin), Just(Chunking::Fastcdc)]
}

fn any_codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::Stored), (1..4).prop_map(Codec::Zstd)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_input_comes_back(
        input in any_input(), chunking in any_chunking(), codec in any_codec(), threads in 1usize..5,
    ) {
        let container = pack(&input, threads, chunking, codec).unwrap();
        prop_assert_eq!(unpacked(&container).unwrap(), input);
    }

    #[test]
    fn a_changed_container_never_gives_other_content(
        input in any_input(), codec in any_codec(), at: prop::sample::Index, flip in 1u8..,
    ) {
        let mut container = pack(&input, 1, Chunking::Rabin, codec).unwrap();
        let at = at.index(container.len());
        container[at] ^= flip;
        if let Ok(content) = unpacked(&container) {
            prop_assert_eq!(content, input);
        }
    }

    #[test]
    fn a_container_cut_short_or_followed_by_more_is_refused(
        input in any_input(), at: prop::sample::Index,
    ) {
        let mut container = pack(&input, 1, Chunking::Rabin, Codec::Zstd(1)).unwrap();
        prop_assert!(unpacked(&container[..at.index(container.len())]).is_err());
        container.push(0);
        prop_assert!(unpacked(&container).is_err());
    }
}

#[test]
fn the_output_is_the_same_for_every_number_of_threads() {
    let input = content(PLAN);
    for (chunking, codec) in [
        (Chunking::Rabin, Codec::Zstd(1)),
        (Chunking::Fastcdc, Codec::Stored),
    ] {
        let packed = pack(&input, 1, chunking, codec).unwrap();
        assert!(packed.len() < input.len() * 4 / 5, "nothing was saved");
        assert!(unpacked(&packed).unwrap() == input);
        for threads in [2, 7] {
            assert!(pack(&input, threads, chunking, codec).unwrap() == packed);
        }
    }
}

#[test]
fn what_was_written_by_hand_is_held_to_its_words() {
    let hash = |bytes: &[u8]| digest_of(bytes);
    let begun = |length| Writer::new(Vec::new(), Codec::Stored, length).unwrap();
    let says = |container: Vec<u8>| unpacked(&container).unwrap_err().to_string();

    let mut writer = begun(3);
    writer.stored(&hash(b"abc"), b"abc").unwrap();
    assert_eq!(unpacked(&writer.finish().unwrap()).unwrap(), b"abc");

    let mut writer = begun(3);
    writer.reference(&hash(b"abc"), 0).unwrap();
    assert!(says(writer.finish().unwrap()).contains("chunk 0 is named, 0 are known"));

    let mut writer = begun(2);
    writer.stored(&hash(b"abc"), b"abc").unwrap();
    assert!(says(writer.finish().unwrap()).contains("which cannot be"));

    let mut writer = begun(4);
    writer.stored(&hash(b"abc"), b"abc").unwrap();
    assert!(says(writer.finish().unwrap()).contains("holds 3 bytes of 4"));

    let mut writer = begun(3);
    writer.stored(&hash(b"abd"), b"abc").unwrap();
    assert!(says(writer.finish().unwrap()).contains("its digest differs"));

    let mut writer = begun(3);
    writer.compressed(&hash(b"abc"), 3, b"ab").unwrap();
    assert!(says(writer.finish().unwrap()).contains("in a container that has none"));

    assert!(says(b"something else, and long enough".to_vec()).contains("no container"));
}

fn digest_of(bytes: &[u8]) -> [u8; 32] {
    let text = digest::of_bytes(bytes);
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// A directory of this test alone, with a small corpus.
fn corpus(name: &str) -> (PathBuf, PathBuf) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory); // Of an earlier run.
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("corpus");
    Corpus::make(PLAN, &path).unwrap();
    (directory, path)
}

fn options(input: &Path, source: Source, output: Option<PathBuf>) -> Options {
    Options {
        input: input.to_owned(),
        sync: output.is_some(),
        output,
        source,
        threads: 2,
        chunking: Chunking::Rabin,
        codec: Codec::Zstd(3),
        reference: None,
    }
}

#[test]
fn every_source_gives_what_the_reference_says() {
    let (directory, path) = corpus("sources");
    let reference = Reference::make(&path, Chunking::Rabin, Codec::Zstd(3)).unwrap();
    let kept = directory.join("reference");
    manifest::write(&kept, &reference).unwrap();
    for source in [Source::Memory, Source::File, Source::Direct] {
        let output = (source != Source::Memory).then(|| directory.join("output"));
        let packing = Options {
            reference: Some(kept.clone()),
            ..options(&path, source, output.clone())
        };
        let done = run(&packing).unwrap();
        assert_eq!(done.input_sha256, reference.corpus.sha256);
        assert_eq!(done.output_sha256, reference.output_sha256);
        assert_eq!(done.output_bytes, reference.output_bytes);
        assert_eq!(done.reference.as_ref(), Some(&reference));
        assert!(done.unique_chunks < done.chunks);
        let threads: usize = done.report.stages.iter().map(|stage| stage.threads).sum();
        assert_eq!(threads, 3 * 2 + 2);
        if let Some(output) = output {
            let back = directory.join("back");
            let length = unpack(std::fs::File::open(output).unwrap(), &back).unwrap();
            assert_eq!(length, PLAN.size);
            assert!(std::fs::read(back).unwrap() == content(PLAN));
        }
    }
}

#[test]
fn what_is_missing_or_changed_is_said() {
    let (directory, path) = corpus("missing");
    let says = |options: &Options| format!("{:#}", run(options).err().unwrap());
    let gone = directory.join("gone");
    assert!(says(&options(&gone, Source::Memory, None)).contains("there is no input"));
    let mut packing = options(&path, Source::Memory, None);
    packing.reference = Some(gone.clone());
    assert!(says(&packing).contains("there is no reference of dedup's"));
    std::fs::write(&gone, "{}").unwrap();
    assert!(says(&packing).contains("is no reference of dedup's"));
    std::fs::write(&gone, "").unwrap();
    assert!(says(&options(&gone, Source::File, None)).contains("is empty"));
    let nowhere = directory.join("nowhere/output");
    assert!(says(&options(&path, Source::File, Some(nowhere))).contains("cannot write"));

    let mut bytes = content(PLAN);
    bytes[2_500_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let reference = Reference::make(&path, Chunking::Rabin, Codec::Stored);
    assert!(
        reference
            .unwrap_err()
            .to_string()
            .contains("not what it was made as")
    );
}
